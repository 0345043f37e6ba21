"""One worker that can do one thing at a time, and somebody who would keep it busy for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connections

from django_rivet.actors.exceptions import ActorBusyError, QueueFullError
from django_rivet.models import WorkflowRun
from django_rivet.runtime.handles import Handle
from tests.journeys.actors import OrderActor
from tests.journeys.conftest import StartWorker
from tests.journeys.fairness_actors import EndlessActor
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

OTHERS = 5
SLICE_SECONDS = 0.5


@pytest.fixture(params=["embedded", "redis"])
def broker(request: pytest.FixtureRequest) -> str:
    """Embedded: nobody's hints reach the worker, its own sweeper's are all there are."""
    return str(request.getfixturevalue("redis_url")) if request.param == "redis" else ""


@contextmanager
def sending_to(actor: Handle) -> Iterator[None]:
    """A sender that never stops."""
    enough = threading.Event()

    def send() -> None:
        while not enough.is_set():
            try:
                actor.send("again", 0)
            except (QueueFullError, ActorBusyError):
                enough.wait(0.01)
        connections.close_all()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join(60)


def are_done(others: list[Handle]) -> bool:
    return all(sorted(other.state.confirmed) == ["a", "b"] for other in others)


@pytest.mark.parametrize("stream", ["to itself", "from a sender"])
def test_an_endless_stream_to_one_actor_does_not_starve_the_others(
    start_worker: StartWorker, ledger: Path, broker: str, stream: str
) -> None:
    """It gets its slice, goes behind the others, and comes again: they all end, and it goes on."""
    # Given a worker that is busy with an endless actor, which goes first
    worker = start_worker("--concurrency=1", "--pool=solo", broker=broker, SLICE_SECONDS=SLICE_SECONDS)
    endless = EndlessActor.create("main")
    with sending_to(endless) if stream == "from a sender" else _itself(endless):
        eventually(lambda: endless.state.turns > 10, 60, "the endless one is busy", worker.log)

        # When others come
        others = [OrderActor.create(f"other-{n}") for n in range(OTHERS)]
        for other in others:
            other.send("orders", {"id": "a"})
            other.send("orders", {"id": "b"})
        before = WorkflowRun.objects.get(pk=endless.id).epoch
        eventually(lambda: are_done(others), 60, "the others are done", worker.log)

        # Then they had to wait for a few slices only, and the endless one was not held up by them
        if stream == "to itself":  # its mailbox is never empty, so it is claimed once for each slice
            assert WorkflowRun.objects.get(pk=endless.id).epoch - before <= 3 * OTHERS
        turns = endless.state.turns
        eventually(lambda: endless.state.turns > turns, 60, "the endless one goes on", worker.log)


@contextmanager
def _itself(actor: Handle) -> Iterator[None]:
    actor.send("again", 1)
    yield
