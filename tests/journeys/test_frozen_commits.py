"""A worker that freezes in the middle of a commit holds the locks of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from django.db import connection

from tests.journeys.actors import OrderActor
from tests.journeys.commit_actors import FrozenCommitActor
from tests.journeys.conftest import StartWorker
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("kind", ["asks nothing", "outside"])
def test_a_worker_that_freezes_within_a_commit_stops_nobody(
    start_worker: StartWorker, ledger: Path, redis_url: str, kind: str
) -> None:
    """PostgreSQL ends its session, another worker does the step and is free for others; on SQLite it must be killed."""
    # Given a worker whose process is frozen when all of a commit is sent but COMMIT
    first = start_worker("--concurrency=1", broker=redis_url)
    actor = FrozenCommitActor.create(kind)
    eventually(lambda: "frozen" in effects(ledger), 60, "the worker freezes", first.log)
    os.killpg(first.process.pid, signal.SIGSTOP)

    # When another one comes
    if connection.vendor == "sqlite":
        first.kill()
    second = start_worker("--concurrency=1", broker=redis_url)
    other = OrderActor.create("other")
    other.send("orders", {"id": "1"})

    # Then it does the step, and what others want
    eventually(lambda: actor.status == "completed", 60, "the step is done by the other worker", second.log)
    eventually(lambda: other.state.confirmed == ["1"], 60, "other work is done", second.log)

    # And the frozen one writes nothing when it thaws
    if connection.vendor == "postgresql":
        os.killpg(first.process.pid, signal.SIGCONT)
        second.stop()
        other.send("orders", {"id": "2"})
        eventually(lambda: other.state.confirmed == ["1", "2"], 60, "the thawed one goes on with other work", first.log)
    assert actor.history()["step"].attempts == 2
