"""ROLLBACK: mistakes in the workflow and code that does not fit its history undo nothing."""

from contextlib import suppress

import pytest

from django_rivet import workflow
from django_rivet.testing import advance, drive, isolated_actors
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "mistake", ["no_checkpoint", "bad_option", "state_outside_steps", "two_entries_at_once", "swallowed"]
)
def test_rollback_27_a_mistake_in_the_workflow_compensates_nothing(outside, mistake):
    """Differs on purpose from the reference: a bad deploy refunds nobody; what is owed stays owed."""

    class Trip(undoable(outside)):
        class State:
            trips: int = 0

        @workflow
        def run(self, ctx):
            ctx.try_block("booking", self.booking)
            getattr(self, mistake)(ctx)

        def booking(self, block):
            block.rollback_checkpoint("booking")
            block.step("flight", self.do, "F-1", rollback=self.undo)
            block.step("hotel", self.fail)

        def no_checkpoint(self, ctx):
            ctx.step("car", self.do, "C-3", rollback=self.undo)

        def bad_option(self, ctx):
            ctx.step("car", self.do, "C-3", retries=5)

        def state_outside_steps(self, ctx):
            self.state.trips += 1

        def two_entries_at_once(self, ctx):
            ctx.try_block("tour", lambda block: ctx.step("car", self.do, "C-3"))

        def swallowed(self, ctx):
            with suppress(Exception):
                self.no_checkpoint(ctx)
            with suppress(Exception):
                ctx.step("tour", self.do, "T-4")
            raise KeyError("price")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do F-1"]
    assert trip.history()["booking/flight"].rollback.status == "owed"


def test_rollback_27_divergence_compensates_nothing(outside):
    """Differs on purpose: code that does not fit the history makes the actor `diverged`, and what is owed stays."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)
    advance(61)

    with isolated_actors():

        class Trip(undoable(outside)):
            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("trip")
                ctx.step("train", self.do, "T-1", rollback=self.undo)

        assert drive(trip) == "diverged"

    assert outside == ["do F-1"]
    assert trip.history()["flight"].rollback.status == "owed"


@pytest.mark.parametrize("mistake", ["bad_option", "state_outside_steps", "name_used_twice", "handler_without_name"])
def test_rollback_27_a_scoped_block_neither_catches_nor_undoes_for_a_mistake(outside, mistake):
    """Differs on purpose: it catches everything but usage errors, and what its steps owe stays owed."""

    class Trip(undoable(outside)):
        class State:
            trips: int = 0

        @workflow
        def run(self, ctx):
            ctx.try_block("stay", self.stay, rollback=True)
            outside.append("went on")

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("room", self.do, "R-1", rollback=self.undo)
            getattr(self, mistake)(block)

        def bad_option(self, block):
            block.step("car", self.do, "C-3", retries=5)

        def state_outside_steps(self, block):
            self.state.trips += 1

        def name_used_twice(self, block):
            block.step("room", self.do, "R-2", rollback=self.undo)

        def handler_without_name(self, block):
            block.step("car", self.do, "C-3", rollback=lambda rollback, thing: None)

    trip = Trip.create("one")

    assert drive(trip) in ("failed", "diverged")

    assert outside == ["do R-1"]
    assert trip.history()["stay/room"].rollback.status == "owed"
