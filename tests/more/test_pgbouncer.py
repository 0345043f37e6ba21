"""PgBouncer in transaction mode: each transaction may run in another session, and nothing may be left in one."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection, connections

from django_rivet import Actor, ActorBusyError, action, workflow
from django_rivet.testing import drive, isolated_actors
from tests.journeys.conftest import StartWorker
from tests.journeys.orders import NO_RETRIES, Orders
from tests.journeys.workers import eventually
from tests.more.pgbouncer import POOL_SIZE, pgbouncer
from tests.postgresql.server import Server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]

WORKERS = "rivet-workers"
KILLS = 6
ENDED = 20


@pytest.fixture
def server(transactional_db: None) -> Iterator[Server]:
    """The test's way to PostgreSQL past PgBouncer."""
    with Server() as beside:
        yield beside


@pytest.fixture
def bouncer(server: Server, child_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Between the database and everybody else: this process, and the workers."""
    folder = Path(tempfile.mkdtemp(prefix="rivet-pgbouncer-"))
    folder.chmod(0o755)
    try:
        with pgbouncer(os.environ["RIVET_TEST_POSTGRES_URL"], folder) as url:
            child_environment["RIVET_TEST_POSTGRES_URL"] = url
            child_environment["DJANGO_SETTINGS_MODULE"] = "tests.more.pgbouncer_settings"
            child_environment["PGAPPNAME"] = WORKERS
            connection.close()
            with monkeypatch.context() as patch:
                patch.setitem(connection.settings_dict, "PORT", urlsplit(url).port)
                patch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
                yield url
                connection.close()
    finally:
        shutil.rmtree(folder)


def sessions_settings(server: Server, bouncer: str) -> set[tuple[str, ...]]:
    """What the sessions behind it are set to, each of them asked while the others are kept busy."""
    found: set[tuple[str, ...]] = set()
    all_asked = threading.Barrier(POOL_SIZE)

    def ask() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
                names = ("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout")
                cursor.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in names))
                found.add(tuple(cursor.fetchone()))
                all_asked.wait(60)
                cursor.execute("COMMIT")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(POOL_SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_limits_of_a_transaction_stay_in_it(server: Server, bouncer: str) -> None:
    """A step's idle limit and an action's patience for the turn would hit whoever gets the session next."""
    with isolated_actors():

        class Order(Actor):
            class State:
                count: int = 0

            @workflow
            def run(self, ctx):
                ctx.step("take", self.take, timeout=5)

            def take(self):
                self.state.count += 1
                begun.set()
                if len(refused) < 1:
                    assert over.wait(60)

            @action
            def add(self) -> None:
                self.state.count += 1

        begun, over = threading.Event(), threading.Event()
        refused: list[str] = []
        order = Order.create("one")

        def visit() -> None:
            try:
                assert begun.wait(60)
                order.add()
            except ActorBusyError as error:
                refused.append(str(error))
            finally:
                over.set()
                connections.close_all()

        # Given an action that waits in vain for the turn that a step holds
        visitor = threading.Thread(target=visit)
        visitor.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("django_rivet.runtime.turn.get_settings", lambda: _Impatient)
            assert drive(order) == "completed"
        visitor.join()
        assert len(refused) == 1

        # Then no session remembers either
        assert sessions_settings(server, bouncer) == {("0", "0", "0")}


class _Impatient:
    TURN_TIMEOUT = 0.3
    MAX_OUTPUT_BYTES = 1024


def test_a_slow_query_is_stopped_through_it(bouncer: str) -> None:
    """The cancellation finds its way to the session that runs the query; the connection is usable afterwards."""
    with isolated_actors():

        class Order(Actor):
            @workflow
            def run(self, ctx):
                failure = ctx.try_step("slow", self.slow, timeout=0.5).failure
                return [failure.kind, ctx.step("after", lambda: 1)]

            def slow(self):
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_sleep(60)")

        order = Order.create("one")
        began = time.monotonic()

        assert drive(order) == "completed"

        assert order.output == ["timeout", 1]
        assert time.monotonic() - began < 30


@pytest.mark.journey
def test_orders_end_right_through_it_whatever_dies(
    server: Server, bouncer: str, start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Workers of both pools are killed, and sessions behind PgBouncer are ended; no step has a retry to spend."""
    pools = [("--concurrency=2",), ("--pool=threads", "--concurrency=4")]
    workers = [start_worker(*pool, broker=redis_url, **NO_RETRIES) for pool in pools]
    eventually(lambda: all(w.is_ready for w in workers), 60, "the workers are ready", workers[-1].log)
    orders = Orders(6)
    ended = 0

    # When orders keep coming, one worker after the other is killed and replaced, and sessions end in between
    for kill in range(KILLS):
        under_way = orders.some_are_under_way(ledger)
        orders.send(3)
        eventually(under_way, 60, "somebody is at work", workers[-1].log)
        while ended < ENDED * (kill + 1) // KILLS:
            for pid in random.sample(pids := server.sessions_of(WORKERS), min(1, len(pids))):
                server.end(pid)
                ended += 1
            time.sleep(random.uniform(0.0, 0.1))
        workers.pop(0).kill()
        workers.append(start_worker(*pools[kill % 2], broker=redis_url, **NO_RETRIES))

    # Then all orders end right
    orders.assert_right(ledger, workers[-1].log)
