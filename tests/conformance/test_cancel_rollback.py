"""CANCEL with `rollback=True`: what is undone, from where, and what a second request changes."""

from dataclasses import replace

import pytest

from django_rivet import Queue, workflow
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


def test_cancel_03_everything_owed_is_undone_newest_first(outside):
    """Steps of the workflow, of ended and open iterations, and of blocks, in reverse order of completion."""

    class Trip(trips(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("a", self.do, "A", rollback=self.undo)
            ctx.try_block("block", lambda block: block.step("b", self.do, "B", rollback=self.undo), rollback=True)
            for turn in ctx.loop("days"):
                turn.step("c", self.do, f"C{turn.iteration}", rollback=self.undo)
                if turn.iteration == 1:
                    turn.try_block("stay", self.stay, rollback=True)

        def stay(self, block):
            block.step("d", self.do, "D", rollback=self.undo)
            block.queue.next("answer", ["answers"])

    trip = Trip.create("one")
    drive(trip)

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside[5:] == ["undo D", "undo C1", "undo C0", "undo B", "undo A"]


def test_cancel_03_what_is_settled_stays_done(outside):
    """Iterations that ended well with a checkpoint of their own are not undone by a cancellation either."""

    class Shop(trips(outside)):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                turn.step("reserve", self.do, turn.iteration, rollback=self.undo)
                turn.queue.next("payment", ["orders"])

    shop = Shop.create("one")
    shop.send("orders", "paid")
    drive(shop)

    shop.cancel(rollback=True)
    assert drive(shop) == "cancelled"

    assert outside == ["do 0", "do 1", "undo 1"]


def test_cancel_03_handlers_are_told_of_the_cancellation(outside):
    """`rollback.cause` is a `WorkflowCancelledError`; the actor has no error, before and after."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.look)
            ctx.sleep("night", 60)

        def look(self, rollback, thing):
            self.tell_cause(rollback, thing)
            outside.append((Trip.get("one").status, Trip.get("one").error))

    trip = Trip.create("one")
    drive(trip)

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside[1:] == ["WorkflowCancelledError: the workflow was cancelled", ("rolling_back", None)]
    assert trip.error is None


def test_cancel_03_its_handlers_are_retried_like_any(outside):
    """A handler that fails waits for its retry as `rolling_back`; at the end the actor is `cancelled`."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo_when_open)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)

    trip.cancel(rollback=True)
    assert drive(trip) == "rolling_back"
    assert trip.error is None
    doors.append("open")
    advance(1)
    assert drive(trip) == "cancelled"

    assert outside == ["do F-1", "closed at attempt 1", "undo F-1"]


def test_cancel_03_a_handler_given_up_stops_it_and_recover_finishes_it(outside):
    """`rollback_failed` asks for people; `recover()` finishes the rollback, and the actor is cancelled as asked."""
    doors = []

    class Trip(trips(outside, doors)):
        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_when_open, rollback_max_retries=0)
            ctx.sleep("night", 60)
            ctx.step("car", self.do, "C-3")

    trip = Trip.create("one")
    drive(trip)
    trip.cancel(rollback=True)
    assert drive(trip) == "rollback_failed"
    doors.append("open")
    advance(61)

    trip.recover()

    assert drive(trip) == "cancelled"
    assert outside == ["pass", "do F-1", "do H-2", "closed at attempt 1", "undo H-2", "undo F-1"]


@pytest.mark.parametrize("requests", [(False, True), (True, False)])
def test_cancel_03_a_rollback_that_was_asked_for_is_carried_out_whatever_else_is_asked(outside, requests):
    """Of two requests to a running workflow the one with a rollback counts, in either order."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("cancel", self.cancel_twice)
            ctx.step("hotel", self.do, "H-2")

        def cancel_twice(self):
            for rollback in requests:
                Trip.get("one").cancel(rollback=rollback)

    trip = Trip.create("one")

    assert drive(trip) == "cancelled"
    assert outside == ["do F-1", "undo F-1"]


def test_cancel_03_a_plain_cancellation_does_not_take_back_a_rollback_that_waits_for_a_worker(outside):
    """Nobody drives the actor yet: the second request changes nothing."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)

    trip.cancel(rollback=True)
    trip.cancel()

    assert drive(trip) == "cancelled"
    assert outside == ["do F-1", "undo F-1"]


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_what_a_mistake_left_owed_is_undone_only_where_that_is_asked_for(outside, rollback):
    """A usage error compensated nothing; a cancellation with a rollback is the operator's word that it shall be."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", retries=5)

    trip = Trip.create("one")
    assert drive(trip) == "failed"
    assert outside == ["do F-1"]

    assert trip.cancel(rollback=rollback)

    assert drive(trip) == "cancelled"
    assert outside == ["do F-1", *(["undo F-1"] if rollback else [])]
