"""A synchronous body that hangs does not hold up its actor or its worker, whatever the pool (B28)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from django_rivet.runtime import limits
from tests.journeys.actors import OrderActor
from tests.journeys.conftest import StartWorker
from tests.journeys.hanging_actors import HangingActor, durations
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

HANGS = ["sleep", "spin", "read", "query", "swallow"]

STOPPED_WITHIN = 6
"""Seconds, of which each time-out is one, and the rest is for a machine that has much else to do."""


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_where_bodies_can_be_stopped_they_are(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """Each attempt ends within its second, none overlaps the next, and the worker is free for other work."""
    worker = start_worker(f"--pool={pool}", "--concurrency=2", broker=redis_url)
    actors = {kind: HangingActor.create(kind) for kind in HANGS}
    other = OrderActor.create("other")
    other.send("orders", {"id": "1"})

    eventually(lambda: all(actor.status == "completed" for actor in actors.values()), 90, "all end", worker.log)
    eventually(lambda: other.state.confirmed == ["1"], 30, "other work is done", worker.log)

    seen = effects(ledger)
    for kind, actor in actors.items():
        assert actor.output == "exhausted"
        assert actor.history()["hang"].attempts == 3
        assert sum(seen[f"begin:{kind}"].values()) == sum(seen[f"stopped:{kind}"].values()) == 3
        assert f"late:{kind}" not in seen
        assert max(durations(ledger, kind)) < STOPPED_WITHIN


def test_threads_leave_bodies_behind_and_go_on(start_worker: StartWorker, ledger: Path, redis_url: str) -> None:
    """More bodies hang than there are threads; the steps end in time all the same, and other work is done."""
    worker = start_worker("--pool=threads", "--concurrency=2", broker=redis_url)
    kinds = [*HANGS, "swallow_all"]
    actors = {kind: HangingActor.create(kind) for kind in kinds if kind != "spin"}

    eventually(lambda: all(actor.status == "completed" for actor in actors.values()), 60, "all end", worker.log)
    other = OrderActor.create("other")
    other.send("orders", {"id": "1"})
    eventually(lambda: other.state.confirmed == ["1"], 30, "other work is done", worker.log)

    for kind, actor in actors.items():
        assert actor.output == "exhausted"
        assert actor.history()["hang"].attempts == 3
        assert len(durations(ledger, kind)) == 3
        assert max(durations(ledger, kind)) < STOPPED_WITHIN
    assert "is left behind in thread rivet-left-behind-" in worker.log.read_text()


def test_a_prefork_process_ends_for_a_body_that_swallows_everything(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """It is one that kills its worker: given up after so many takeovers, while the worker lives on."""
    worker = start_worker("--concurrency=1", broker=redis_url, MAX_TAKEOVERS=1)
    actor = HangingActor.create("swallow_all")

    eventually(lambda: actor.status == "completed", 60, "the step is given up", worker.log)
    other = OrderActor.create("other")
    other.send("orders", {"id": "1"})
    eventually(lambda: other.state.confirmed == ["1"], 30, "other work is done", worker.log)

    assert actor.output == "interrupted"
    assert "swallows its time-out" in worker.log.read_text()
    assert "late:swallow_all" not in effects(ledger)


def test_a_solo_worker_outlives_a_body_that_swallows_everything(start_worker: StartWorker, ledger: Path) -> None:
    """Nobody would start another one in its place: it waits for the body, and others go on meanwhile."""
    # Given two workers, and a body that takes one of them
    workers = [start_worker("--pool=solo") for _ in range(2)]
    eventually(lambda: all(worker.is_ready for worker in workers), 60, "the workers are ready", workers[1].log)
    HangingActor.create("swallow_all")
    eventually(lambda: "begin:swallow_all" in effects(ledger), 30, "the body begins", workers[0].log)

    # When there is other work
    other = OrderActor.create("other")
    other.send("orders", {"id": "1"})

    # Then the other one does it meanwhile
    eventually(lambda: other.state.confirmed == ["1"], 30, "other work is done", workers[1].log)
    assert "late:swallow_all" not in effects(ledger)

    # And the worker stays when a process of a pool would have ended
    with pytest.raises(subprocess.TimeoutExpired):
        workers[0].process.wait(1 + limits.STUBBORN_SECONDS + 1)
    assert workers[1].process.poll() is None
