"""A worker that dies while its actor is to be paused: the pause holds, and nothing is done twice."""

from __future__ import annotations

import uuid
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from django_rivet import Actor, CriticalError, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import this_worker
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("where", ["forward", "rolling back", "in a block"])
def test_a_pause_survives_a_crash_at_every_commit(where: str, after: bool) -> None:
    """Whoever takes the actor over pauses it and does nothing else; after the resume each effect is there once."""

    class Trip(Actor):
        class State:
            log: list[str] = []

        @workflow
        def run(self, ctx):
            if where == "in a block":
                ctx.try_block("trip", self.travel, rollback=True)
            else:
                self.travel(ctx)

        def travel(self, scope):
            scope.rollback_checkpoint("trip")
            scope.step("flight", self.do, "flight", rollback=self.undo)
            # Not atomic: the request is committed, whatever becomes of the record.
            scope.step(
                "pause", self.pause_forward, atomic=False, rollback=self.pause_back, rollback_atomic=False, timeout=0
            )
            scope.step("hotel", self.do, "hotel", rollback=self.undo)
            if where != "forward":
                scope.step("car", self.fail)

        def do(self, thing):
            self.state.log.append(thing)

        def undo(self, rollback, output):
            self.state.log.append(f"undo {rollback.args[0]}")

        def pause_forward(self):
            if where == "forward":
                Trip.get(self.key).pause()

        def pause_back(self, rollback, output):
            if where != "forward":
                Trip.get(self.key).pause()

        def fail(self):
            raise CriticalError("no")

    for n in count(1):
        trip = Trip.create(str(n))
        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive(trip)
        stopped = [drive(trip)]
        while trip.resume():
            stopped.append(drive(trip))

        # The body, or handler, whose record was lost runs again and asks again.
        assert stopped[:-1] in (["paused"], ["paused", "paused"]), (n, stopped)
        assert stopped[-1] == ("failed" if where == "rolling back" else "completed"), n
        undone = [] if where == "forward" else ["undo hotel", "undo flight"]
        assert trip.state.log == ["flight", "hotel", *undone], n
        if not point.crashed:
            assert n >= 5
            return


@pytest.mark.parametrize("is_asked_before_the_lease_is_over", [True, False])
def test_an_actor_whose_worker_is_dead_pauses_at_once_when_its_lease_is_over(
    is_asked_before_the_lease_is_over: bool,
) -> None:
    """Whether it was asked for before or after; the death counts as a takeover either way."""
    doors: list[str] = []

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.die)

        def die(self):
            if not doors:
                raise SimulatedCrash

    trip = Trip.create("one")
    with pytest.raises(SimulatedCrash):
        drive_once(uuid.UUID(trip.id), this_worker())

    # When somebody pauses it, before or after the lease runs out
    if is_asked_before_the_lease_is_over:
        assert trip.pause()
        assert trip.status == "running"
    advance(60)
    if is_asked_before_the_lease_is_over:
        assert drive_once(uuid.UUID(trip.id), this_worker())
    else:
        assert trip.pause()

    # Then it stands still, and one worker has died
    run = WorkflowRun.objects.get(pk=trip.id)
    assert (run.status, run.paused_from, run.pausing) == ("paused", "sleeping", False)
    assert (run.holder, run.takeovers, run.cut_off) == (None, 1, True)

    doors.append("open")
    assert trip.resume()
    assert drive(trip) == "completed"


def test_a_worker_that_was_frozen_when_its_actor_was_paused_writes_nothing_more() -> None:
    """Its lease was over: the pause took the actor away from it."""

    class Trip(Actor):
        class State:
            seen: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.step("slow", self.slow, atomic=False, timeout=0)
            ctx.step("after", self.after)

        def slow(self):
            if not paused:
                advance(60)
                paused.append(Trip.get("one").pause())

        def after(self):
            self.state.seen.append("after")

    paused: list[bool] = []
    trip = Trip.create("one")

    drive_once(uuid.UUID(trip.id), this_worker())

    assert (trip.status, len(trip.history()), trip.state.seen) == ("paused", 0, [])
    trip.resume()
    assert drive(trip) == "completed"
    assert trip.state.seen == ["after"]
