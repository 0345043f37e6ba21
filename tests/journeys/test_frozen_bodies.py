"""A worker that freezes in a body without a lock stops nobody, and comes back to an actor that is another's."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from django_rivet.models import Event
from tests.journeys.actors import OrderActor
from tests.journeys.conftest import StartWorker
from tests.journeys.frozen_actors import FrozenBodyActor
from tests.journeys.models import Effect
from tests.journeys.outside import effects, open_gate
from tests.journeys.workers import WorkerProcess, eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]


def test_a_worker_that_freezes_without_a_lock_writes_nothing_when_it_thaws(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Neither the result of its body nor what comes with it, nor the next step; and it goes on with other work."""
    # Given a worker that is frozen in the body of a step outside of transactions
    first = start_worker("--concurrency=1", broker=redis_url)
    actor = FrozenBodyActor.create("main")
    eventually(lambda: "begin:1" in effects(ledger), 60, "the body begins", first.log)
    freeze_without_lock(first)

    # When its lease is over, another one does the work, and ends
    other = OrderActor.create("other")
    second = start_worker("--concurrency=1", broker=redis_url)
    eventually(lambda: actor.status == "completed", 60, "the other one does the work", second.log)
    second.stop()

    # And it thaws, and its body comes to its end
    open_gate(ledger)
    os.killpg(first.process.pid, signal.SIGCONT)
    other.send("orders", {"id": "1"})
    eventually(lambda: "end:1" in effects(ledger), 60, "the thawed body ends", first.log)

    # Then it goes on with other work
    eventually(lambda: other.state.confirmed == ["1"], 60, "the thawed one does other work", first.log)
    assert first.process.poll() is None

    # And all that there is comes from the second attempt
    assert (actor.status, actor.output, actor.state.done) == ("completed", 2, [2])
    assert [(entry.path, entry.output) for entry in actor.history()] == [("outside", 2), ("inside", None)]
    assert list(Event.objects.filter(actor=actor.id).values_list("payload", flat=True)) == ["2"]
    assert list(Effect.objects.filter(name__startswith="inside").values_list("name", flat=True)) == ["inside:2"]


# Below: how it is done ---------------------------------------------------------------------------


def freeze_without_lock(worker: WorkerProcess) -> None:
    """Where a heartbeat is just being written, SQLite's lock would freeze with it, and all others wait for that."""

    def is_frozen_without_lock() -> bool:
        os.killpg(worker.process.pid, signal.SIGSTOP)
        if _is_writable():
            return True
        os.killpg(worker.process.pid, signal.SIGCONT)
        return False

    eventually(is_frozen_without_lock, 60, "it is frozen between two heartbeats", worker.log)


def _is_writable() -> bool:
    """Whether SQLite gives the lock to somebody else; PostgreSQL ends by itself what was sent to it."""
    if connection.vendor == "postgresql":
        return True
    with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=0.5)) as own:
        try:
            own.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True
