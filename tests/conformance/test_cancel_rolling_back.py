"""CANCEL: of an actor that is rolling back already, or whose rollback has failed."""

from dataclasses import replace
from uuid import UUID

import pytest

from django_rivet import workflow
from django_rivet.runtime import drive as driving
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def trips(outside, open_doors=()):
    """A base for trips with a handler that fails while ``open_doors`` is empty."""

    class Trips(undoable(outside)):
        class Meta:
            abstract = True

        def undo_when_open(self, rollback, thing):
            if not open_doors:
                outside.append(f"closed at attempt {rollback.attempt}")
                raise OSError("closed")
            self.undo(rollback, thing)

        def tell_cause(self, rollback, thing):
            outside.append(f"{type(rollback.cause).__name__}: {rollback.cause}")

    return Trips


def stopping_once(outside, mark):
    """A worker that shuts down as soon as ``mark`` is seen outside."""
    return replace(in_process_worker("stopping"), evicted=lambda: mark in outside)


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_rollback_under_way_goes_on_and_ends_cancelled(outside, rollback):
    """Neither form stops the handlers of a workflow that failed; it ends `cancelled` instead of `failed`."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_when_open)
            ctx.step("car", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "rolling_back"

    assert trip.cancel(rollback=rollback)
    assert drive(trip) == "rolling_back"
    doors.append("open")
    advance(1)
    assert drive(trip) == "cancelled"

    assert outside[2:] == ["closed at attempt 1", "undo H-2", "undo F-1"]
    assert not trip.recover()


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_request_from_a_handler_does_not_stop_the_others(outside, rollback):
    """The same while a worker is at it."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_and_cancel)
            ctx.step("car", self.fail)

        def undo_and_cancel(self, rollback_context, thing):
            Trip.get("one").cancel(rollback=rollback)
            self.undo(rollback_context, thing)

    trip = Trip.create("one")

    assert drive(trip) == "cancelled"

    assert outside[2:] == ["undo H-2", "undo F-1"]


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_block_that_is_being_undone_is_undone_to_its_end(outside, rollback):
    """A plain cancellation ends the workflow after the block's handlers; with a rollback the rest is undone as well."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("car", self.do, "C-3")

        def stay(self, block):
            block.step("parking", self.do, "P-1", rollback=self.undo)
            block.step("room", self.do, "R-1", rollback=self.undo_when_open)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "rolling_back"

    trip.cancel(rollback=rollback)
    doors.append("open")
    advance(1)
    assert drive(trip) == "cancelled"

    rest = ["undo F-1"] if rollback else []
    assert outside[3:] == ["closed at attempt 1", "undo R-1", "undo P-1", *rest]


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_block_whose_worker_was_evicted_is_undone_to_its_end(outside, rollback):
    """Given away between two handlers of a block, the actor is `rolling_back`, and a cancellation lets it end."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("car", self.do, "C-3")

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("parking", self.do, "P-1", rollback=self.undo)
            block.step("room", self.do, "R-1", rollback=self.undo)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")
    driving.drive(UUID(trip.id), stopping_once(outside, "undo R-1"))
    assert outside == ["do P-1", "do R-1", "undo R-1"]
    assert trip.status == "rolling_back"

    trip.cancel(rollback=rollback)
    assert drive(trip) == "cancelled"

    assert outside[3:] == ["undo P-1"]


def test_cancel_03_after_rollback_failed_the_handlers_get_fresh_attempts(outside):
    """With a rollback the actor is undone to its end, by reason of the cancellation, and is `cancelled`."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.tell_cause)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_when_open, rollback_max_retries=0)
            ctx.step("car", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "rollback_failed"
    doors.append("open")

    assert trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside[3:] == ["undo H-2", "WorkflowCancelledError: the workflow was cancelled"]
    assert trip.error is None


def test_cancel_03_after_rollback_failed_in_a_block_all_is_undone(outside):
    """The block's handlers and those of the workflow around it; no workflow code runs any more."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.tell_cause)
            ctx.try_block("stay", self.stay, rollback=True)

        def stay(self, block):
            block.step("room", self.do, "R-1", rollback=self.undo_when_open, rollback_max_retries=0)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "rollback_failed"
    doors.append("open")

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside[4:] == ["undo R-1", "WorkflowCancelledError: the workflow was cancelled"]
    assert trip.error is None


def test_cancel_03_after_rollback_failed_a_plain_cancellation_leaves_it_at_that(outside):
    """No handler is tried again; what is owed stays on record."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_when_open, rollback_max_retries=0)
            ctx.step("car", self.fail)

    trip = Trip.create("one")
    drive(trip)

    assert trip.cancel()
    assert drive(trip) == "cancelled"

    assert outside[2:] == ["closed at attempt 1"]
    assert {e.name: e.rollback.status for e in trip.history() if e.rollback} == {"flight": "owed", "hotel": "failed"}


def test_cancel_03_a_plain_cancellation_does_not_stop_the_rollback_of_an_earlier_one(outside):
    """The rollback that the first request asked for is under way, given away by its worker, and goes on."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)
    trip.cancel(rollback=True)
    driving.drive(UUID(trip.id), stopping_once(outside, "undo H-2"))
    assert trip.status == "rolling_back"

    trip.cancel()

    assert drive(trip) == "cancelled"
    assert outside[2:] == ["undo H-2", "undo F-1"]


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_block_that_was_just_recovered_is_undone_to_its_end(outside, rollback):
    """`recover()` promised its handlers fresh attempts; a cancellation before they began does not take that back."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("car", self.do, "C-3")

        def stay(self, block):
            block.step("room", self.do, "R-1", rollback=self.undo_when_open, rollback_max_retries=0)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "rollback_failed"
    doors.append("open")
    trip.recover()

    trip.cancel(rollback=rollback)
    assert drive(trip) == "cancelled"

    assert outside[3:] == ["undo R-1", *(["undo F-1"] if rollback else [])]


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_handler_of_a_block_given_up_after_the_request_is_recovered_to_the_end(outside, rollback):
    """The request waits in `rollback_failed`; `recover()` finishes the block, and then the actor is cancelled."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("car", self.do, "C-3")

        def stay(self, block):
            block.step("room", self.do, "R-1", rollback=self.undo_when_open, rollback_max_retries=1)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "rolling_back"
    trip.cancel(rollback=rollback)
    advance(1)
    assert drive(trip) == "rollback_failed"
    doors.append("open")

    trip.recover()
    assert drive(trip) == "cancelled"

    assert outside[2:] == [
        *("closed at attempt 1", "closed at attempt 2", "undo R-1"),
        *(["undo F-1"] if rollback else []),
    ]
    assert trip.error is None
