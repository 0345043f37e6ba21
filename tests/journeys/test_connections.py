"""What real workers hold open on the database's server: as many connections as is stated, and no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from django.db import connection

from django_rivet.conf import get_settings
from django_rivet.models import WorkflowRun
from django_rivet.runtime.connecting import needed
from tests.journeys.actors import OrderActor, PatientActor
from tests.journeys.branch_actors import PartyActor
from tests.journeys.conftest import StartWorker
from tests.journeys.fairness_actors import BriefActor
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

CONCURRENCY = 4
TASKS = 500


class Server:
    """The database's server, asked on a connection of the test's own. SQLite has none, and no sessions."""

    def __init__(self) -> None:
        self.most = 0
        self.seen: set[int] = set()
        """Every session that was ever met."""
        self.is_there = connection.vendor == "postgresql"
        if self.is_there:
            parameters = connection.get_connection_params()
            chosen = {name: parameters[name] for name in ("dbname", "user", "host", "port") if name in parameters}
            self._connection = psycopg.connect(**chosen, autocommit=True)
            self._before = self._sessions("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")

    def count(self) -> int:
        """The worker's sessions now."""
        found = self._own() if self.is_there else set()
        self.seen |= found
        self.most = max(self.most, len(found))
        return len(found)

    def terminate(self) -> int:
        """End the worker's sessions, as a restart of the server does; returns how many there were."""
        own = self._own()
        for pid in own:
            self._connection.execute("SELECT pg_terminate_backend(%s)", [pid])
        return len(own)

    def close(self) -> None:
        if self.is_there:
            self._connection.close()

    def _own(self) -> set[int]:
        clients = "WHERE datname = current_database() AND backend_type = 'client backend'"
        return self._sessions(f"SELECT pid FROM pg_stat_activity {clients}") - self._before

    def _sessions(self, statement: str) -> set[int]:
        return {pid for (pid,) in self._connection.execute(statement).fetchall()}


@contextmanager
def watching() -> Iterator[Server]:
    """Count again and again while the block runs."""
    # The test's own connections are open before, and none is opened meanwhile.
    connection.ensure_connection()
    server = Server()
    enough = Event()

    def watch() -> None:
        while not enough.wait(0.05):
            server.count()

    thread = Thread(target=watch)
    thread.start()
    try:
        yield server
    finally:
        enough.set()
        thread.join(30)
        server.close()


def all_are(status: str) -> bool:
    return not WorkflowRun.objects.exclude(status=status).exists()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_holds_no_more_connections_than_is_stated(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """Under load with bodies that outlast a heartbeat, after five hundred tasks, and when nothing is left to do."""
    stated = needed(pool, CONCURRENCY)
    for n in range(TASKS):
        BriefActor.create(f"brief-{n}")
    for n in range(CONCURRENCY):
        PatientActor.create(f"patient-{n}")
    worker = start_worker(f"--concurrency={CONCURRENCY}", f"--pool={pool}", broker=redis_url)

    with watching() as server:
        eventually(lambda: all_are("completed"), 100, "all is done", worker.log)
        assert server.most <= stated
        assert len(server.seen) <= 3 * stated, "drives reuse theirs; a heartbeat may come again"
        # Idle: those that drive keep theirs, and a heartbeat without a lease needs none.
        eventually(lambda: server.count() <= CONCURRENCY + 1, 30, "heartbeats let go of theirs", worker.log)
        assert server.count() >= 1 or not server.is_there


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_branches_hold_no_more_connections_than_is_stated_and_none_afterwards(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """With more branches at the same time than there may be threads for in one process."""
    stated = needed(pool, CONCURRENCY, branches=get_settings().BRANCH_THREADS)
    parties = [PartyActor.create(f"party-{n}") for n in range(4 * CONCURRENCY)]
    for party in parties:
        party.send("cars", "van")
    worker = start_worker(f"--concurrency={CONCURRENCY}", f"--pool={pool}", broker=redis_url)

    with watching() as server:
        eventually(lambda: all_are("completed"), 100, "all is done", worker.log)
        assert server.most <= stated
        eventually(lambda: server.count() <= CONCURRENCY + 1, 30, "branches let go of theirs", worker.log)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_connections_that_the_server_ended_fail_no_task(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """A worker that keeps its connections finds out before the next drive."""
    worker = start_worker(f"--concurrency={CONCURRENCY}", f"--pool={pool}", broker=redis_url)
    actors = [OrderActor.create(f"actor-{n}") for n in range(2 * CONCURRENCY)]

    with watching() as server:
        for actor in actors:
            actor.send("orders", {"id": "before"})
        eventually(lambda: _have(actors, "before") and all_are("sleeping"), 60, "connections are in use", worker.log)
        time.sleep(0.5)  # nothing is under way that the end of its session could fail

        if server.is_there:
            assert server.terminate() >= 1
        for actor in actors:
            actor.send("orders", {"id": "after"})
        eventually(lambda: _have(actors, "after"), 60, "the worker goes on", worker.log)

    log = worker.log.read_text()
    assert "raised unexpected" not in log, "a task failed"


def _have(actors: list[OrderActor], order: str) -> bool:
    return all(order in actor.state.confirmed for actor in actors)
