"""`replay_from()`: when it is allowed, and how it leaves the actor."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_rivet import (
    Actor,
    ActorNotFoundError,
    NotReplayableError,
    StepOnlyError,
    UnknownEntryError,
    WorkflowInFlightError,
    current_step,
    workflow,
)
from django_rivet.models import WorkflowRun
from django_rivet.store.runs import claim
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, now

pytestmark = pytest.mark.django_db


def row(handle: Any) -> WorkflowRun:
    return WorkflowRun.objects.get(actor__id=handle.id)


def test_a_sleeping_actor_is_replayed_at_once(trip: Any, outside: list[str]) -> None:
    """It does not wait for its timer, which was set aside; the state is not rewound."""
    handle = trip.create("one")
    drive(handle)

    handle.replay_from("hotel")
    assert handle.wake_at <= now()

    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel", "hotel"]
    assert handle.state.count == 3


def test_a_pending_actor_has_nothing_to_set_aside(trip: Any, outside: list[str]) -> None:
    """It runs as it would have."""
    handle = trip.create("one")

    with pytest.raises(UnknownEntryError, match="it has no step"):
        handle.replay_from("flight")
    handle.replay_from()

    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel"]


def test_a_diverged_actor_is_replayed_from_where_its_code_fits(trips: Any, outside: list[str]) -> None:
    """The way out where the old code is not to come back."""

    class Trip(trips):
        names = ("flight", "hotel", "car")

        @workflow
        def run(self, ctx):
            for name in self.names:
                ctx.step(name, self.do, name)
            ctx.sleep("night", 60)

    handle = Trip.create("one")
    drive(handle)
    Trip.names = ("flight", "boat", "car")
    handle.wake()
    assert drive(handle) == "diverged"

    handle.replay_from("hotel")

    assert handle.error is None
    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel", "car", "boat", "car"]


def test_while_a_worker_drives_the_actor_it_is_refused(trip: Any) -> None:
    """Nothing has happened; its worker goes on."""
    handle = trip.create("one")
    drive(handle)
    handle.wake()
    assert claim(uuid.UUID(handle.id), "a worker", 10) is not None
    before = row(handle).epoch

    with pytest.raises(WorkflowInFlightError, match="replay it when it waits, or pause the actor first"):
        handle.replay_from("hotel")

    assert (row(handle).epoch, row(handle).holder, row(handle).generation) == (before, "a worker", 0)


def test_what_a_dead_worker_held_is_replayed(trip: Any, outside: list[str]) -> None:
    """Its lease is over: should it wake up it can write nothing, and it counts as no takeover."""
    handle = trip.create("one")
    with pytest.raises(SimulatedCrash), crash_at(3):
        drive(handle)
    advance(60)

    handle.replay_from("flight")

    seen = row(handle)
    assert (seen.status, seen.holder, seen.lease_until, seen.takeovers, seen.cut_off) == (
        "sleeping",
        None,
        None,
        0,
        False,
    )
    assert drive(handle) == "sleeping"
    assert [e.path for e in handle.history() if e.kind == "step"] == ["flight", "hotel"]


def test_while_a_rollback_is_not_over_it_is_refused(trip: Any, broken: set[str], outside: list[str]) -> None:
    """At a handler that is out of attempts, and when that was put right but not run yet; then it is allowed."""
    handle = trip.create("one")
    drive(handle)
    broken |= {"car", "undo hotel"}
    advance(61)
    assert drive(handle) == "rollback_failed"

    with pytest.raises(NotReplayableError, match="stands still at a handler"):
        handle.replay_from("hotel")
    broken.clear()
    handle.retry_rollback("hotel")
    for pauses in (False, True):
        if pauses:
            handle.pause()
        with pytest.raises(NotReplayableError, match="is not over: replay it when it is"):
            handle.replay_from("hotel")
    handle.resume()
    assert drive(handle) == "failed"
    outside.clear()

    handle.replay_from("hotel")
    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel"]


def test_a_cancellation_that_was_asked_for_comes_first(trip: Any) -> None:
    """Whoever asked was told that it would be cancelled."""
    handle = trip.create("one")
    drive(handle)
    handle.cancel(rollback=True)

    with pytest.raises(NotReplayableError, match="is about to be cancelled"):
        handle.replay_from("hotel")

    assert drive(handle) == "cancelled"


def test_an_actor_without_a_workflow_has_nothing_to_replay() -> None:
    """It stays as it is."""

    class Plain(Actor):
        pass

    handle = Plain.create("one")

    with pytest.raises(NotReplayableError, match="has no workflow"):
        handle.replay_from()

    assert handle.status == "sleeping"


@pytest.mark.parametrize("entry", [1, ["flight"], b"flight", object()])
def test_an_entry_is_a_path_or_an_entry(trip: Any, entry: Any) -> None:
    """Anything else is the caller's mistake."""
    handle = trip.create("one")
    drive(handle)

    with pytest.raises(TypeError, match="the path of a step, or an entry of the history"):
        handle.replay_from(entry)


def test_a_destroyed_actor_is_gone(trip: Any) -> None:
    """As for every other method."""
    handle = trip.create("one")
    handle.destroy()

    with pytest.raises(ActorNotFoundError):
        handle.replay_from()


def test_in_workflow_code_it_is_refused(trips: Any) -> None:
    """Steps, handlers and actions of others may."""

    class Trip(trips):
        @workflow
        def run(self, ctx):
            other.replay_from()

    other = Trip.create("other")
    handle = Trip.create("one")

    assert drive(handle) == "failed"
    assert handle.error.name == StepOnlyError.__name__


def test_obeys_the_callers_transaction(trip: Any) -> None:
    """Rolled back, nothing was set aside."""
    handle = trip.create("one")
    drive(handle)
    before = (str(handle.history()), handle.wake_at)

    with transaction.atomic():
        handle.replay_from()
        transaction.set_rollback(True)

    assert (str(handle.history()), handle.wake_at) == before
    assert row(handle).generation == 0


def test_there_is_an_async_twin(trip: Any, outside: list[str]) -> None:
    """With the same arguments."""
    handle = trip.create("one")
    drive(handle)

    async_to_sync(handle.areplay_from)("hotel")

    drive(handle)
    assert outside == ["flight", "hotel", "hotel"]


def test_a_run_that_is_replayed_has_all_of_its_time(trips: Any) -> None:
    """`run_timeout` counts from the first drive since."""

    class Trip(trips):
        class Meta:
            run_timeout = 100

        @workflow
        def run(self, ctx):
            ctx.step("flight", self.do, "flight")
            ctx.sleep("night", 60)

    handle = Trip.create("one")
    drive(handle)
    advance(61)
    assert drive(handle) == "completed"
    advance(60)

    handle.replay_from("flight")
    assert drive(handle) == "sleeping"
    advance(61)

    assert drive(handle) == "completed"


def test_a_pause_that_had_not_taken_effect_does_so(trip: Any, outside: list[str]) -> None:
    """Its worker died before it paused the actor."""
    handle = trip.create("one")
    drive(handle)
    handle.wake()
    assert claim(uuid.UUID(handle.id), "a worker", 10) is not None
    assert handle.pause()
    advance(60)

    handle.replay_from("hotel")

    assert (handle.status, row(handle).pausing) == ("paused", False)
    assert handle.resume()
    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel", "hotel"]


def test_a_step_that_may_run_only_once_runs_again(trips: Any, outside: list[str]) -> None:
    """Whoever replays it says that it may; the outcome of the first time is not known."""

    class Trip(trips):
        @workflow
        def run(self, ctx):
            ctx.step("call", self.call, at_most_once=True)

        def call(self):
            outside.append(current_step().idempotency_key)

    handle = Trip.create("one")
    with pytest.raises(SimulatedCrash), crash_at(3):
        drive(handle)
    assert drive(handle) == "failed"
    assert len(outside) == 1

    handle.replay_from("call")
    assert drive(handle) == "completed"

    assert outside == [outside[0]] * 2
