"""ONERROR: what the error hook may do, and what becomes of one that fails itself."""

import pytest
from django.contrib.auth.models import Group

from django_rivet import Event, Queue, workflow
from django_rivet.models import Event as EventRow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def test_onerror_11_what_the_hook_did_lands_with_the_record_of_the_failure(outside):
    """Differs on purpose from the reference, where a crash can repeat an event: both are one commit.

    A worker that dies at this commit leaves neither, and the attempt is made again.
    """

    class Trip(undoable(outside)):
        class State:
            errors: list[int] = []

        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)

        @run.on_error
        def note(self, event):
            self.state.errors.append(event.attempt)
            Group.objects.create(name=f"{self.key} {event.step_name}")

    for after in (False, True):
        trip = Trip.create(f"{after}")
        with pytest.raises(SimulatedCrash), crash_at(2, after=after):
            drive(trip)
        assert [e.path for e in trip.history()] == (["flight"] if after else [])
        assert trip.state.errors == ([1] if after else [])

        assert drive(trip) == "completed"

        assert trip.state.errors == [1]
        assert Group.objects.filter(name=f"{after} flight").count() == 1


@pytest.mark.parametrize("after", [False, True])
def test_onerror_11_one_failure_is_told_once_wherever_the_worker_dies(outside, after):
    """Differs on purpose: a step's, a handler's and the workflow's failure leave one note each, at every crash."""

    class Trip(undoable(outside)):
        class State:
            told: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo_at_the_second_try)
            ctx.try_step("hotel", self.fail)
            raise KeyError("price")

        @run.on_error
        def note(self, event):
            self.state.told.append(event.kind)

        def undo_at_the_second_try(self, rollback, thing):
            if rollback.attempt == 1:
                raise OSError("busy")

    n, crashed = 0, True
    while crashed:
        n += 1
        trip = Trip.create(str(n))
        with crash_at(n, after) as point:
            for _ in range(2):
                try:
                    drive(trip)
                except SimulatedCrash:
                    drive(trip)
                advance(5)
        assert drive(trip) == "failed"
        assert trip.state.told == ["step", "workflow", "rollback"], n
        crashed = point.crashed
    assert n > 8


def test_onerror_16_the_hook_may_change_the_state_broadcast_and_enqueue(outside):
    """In an actor the hook is as free as an action, on behalf of steps, handlers and the workflow alike."""

    class Trip(undoable(outside)):
        class State:
            last_error: dict | None = None

        trouble = Event(dict)
        notes = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("flight", self.fail, "full")

        @run.on_error
        def note(self, event):
            self.state.last_error = event.as_dict()
            self.trouble.broadcast(event.as_dict())
            Trip.get(self.key).send("notes", event.error.message)
            Group.objects.create(name=event.step_name)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.state.last_error["error"]["message"] == "full"
    assert trip.state.last_error["step_name"] == "flight"
    assert EventRow.objects.get().name == "trouble"
    assert Group.objects.get().name == "flight"


def test_onerror_16_a_message_from_the_hook_wakes_the_workflow(outside):
    """What the hook enqueues is received by the workflow that it was called for."""

    class Trip(undoable(outside)):
        notes = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail, "full")
            return ctx.queue.next("note", ["notes"]).body

        @run.on_error
        def note(self, event):
            Trip.get(self.key).send("notes", event.error.message)

    trip = Trip.create("one")

    assert drive(trip) == "completed"
    assert trip.output == "full"


def test_onerror_16_the_hook_may_be_async(outside):
    """An `async def` hook is awaited and may change the state."""

    class Trip(undoable(outside)):
        class State:
            errors: int = 0

        trouble = Event(str)

        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)

        @run.on_error
        async def note(self, event):
            self.state.errors += 1
            self.trouble.broadcast(event.kind)

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert trip.state.errors == 1
    assert EventRow.objects.get().name == "trouble"


def test_onerror_16_a_subclass_keeps_the_hook_unless_it_has_its_own(outside):
    """Overriding the workflow does not lose the hook; registering another one replaces it."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.fail)

        @run.on_error
        def note(self, event):
            outside.append(f"noted by Trip: {event.step_name}")

    class TrainTrip(Trip):
        @workflow
        def run(self, ctx):
            ctx.step("train", self.fail)

    class BusTrip(Trip):
        @workflow
        def run(self, ctx):
            ctx.step("bus", self.fail)

        @run.on_error
        def note_bus(self, event):
            outside.append(f"noted by BusTrip: {event.step_name}")

    for kind in (Trip, TrainTrip, BusTrip):
        assert drive(kind.create("one")) == "failed"

    assert outside == ["noted by Trip: flight", "noted by Trip: train", "noted by BusTrip: bus"]
