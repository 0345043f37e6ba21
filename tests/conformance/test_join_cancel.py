"""CANCEL: joins in whose branches blocks are being undone, and joins of workers that were cut off."""

import pytest

from django_rivet import workflow
from django_rivet.testing import SimulatedCrash, advance, drive
from tests.conformance.modes import IN_BOTH_MODES
from tests.conformance.undoable import undoable

pytestmark = IN_BOTH_MODES


@pytest.mark.parametrize("rollback", [False, True])
def test_while_a_block_of_one_branch_is_undone_a_cancelled_sibling_begins_nothing(outside, rollback):
    """The block is undone to its end first, however long its handler has to wait; then the actor is cancelled."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {"bad": lambda b: b.try_block("saga", self.saga, rollback=True), "sibling": self.sibling})
            ctx.step("after", self.do, "after")

        def saga(self, saga):
            saga.step("do", self.do, "bad", rollback=self.undo_late, rollback_backoff_base=50, rollback_backoff_max=50)
            saga.step("fail", self.fail)

        def undo_late(self, rollback, output):
            if rollback.attempt == 1:
                raise OSError("busy")
            self.undo(rollback, output)

        def sibling(self, b):
            b.step("do", self.do, "sibling", rollback=self.undo)
            b.sleep("nap", 10)
            b.step("late", self.do, "late", rollback=self.undo)

    trip = Trip.create("one")
    assert drive(trip) == "rolling_back"
    trip.cancel(rollback=rollback)
    advance(11)

    assert drive(trip) == "rolling_back"
    assert "do late" not in outside
    assert "undo bad" not in outside
    advance(61)
    assert drive(trip) == "cancelled"

    assert "do late" not in outside
    assert outside.count("undo bad") == 1
    assert outside.count("undo sibling") == int(rollback)


def test_a_rollback_of_a_cut_off_actor_leaves_iterations_of_branches_that_had_ended(outside):
    """Their ends were not on record; the code is replayed up to where it stands, and executes nothing."""
    dies = [True]

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.join("all", {"loop": self.loop, "other": self.other})

        def loop(self, b):
            for turn in b.loop("turns"):
                turn.rollback_checkpoint("turn")
                turn.step("do", self.do, turn.iteration, rollback=self.undo)
                if turn.iteration == 1:
                    turn.sleep("nap", 60)
                    return

        def other(self, b):
            b.rollback_checkpoint("mine")
            b.step("do", self.do, "other", rollback=self.undo)
            b.sleep("nap", 10)
            b.step("die", self.die)

        def die(self):
            if dies:
                dies.pop()
                raise SimulatedCrash

    trip = Trip.create("one")
    drive(trip)
    advance(11)
    with pytest.raises(SimulatedCrash):
        drive(trip)
    trip.cancel(rollback=True)

    assert drive(trip) == "cancelled"
    assert sorted(each for each in outside if each.startswith("undo")) == ["undo 1", "undo other"]
    assert trip.history()["all/loop/turns/0/do"].rollback.status == "settled"


def test_a_rollback_of_a_cut_off_actor_settles_a_join_that_had_ended(outside):
    """All of its branches had returned, and the worker died before that was on record."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("first", self.do, "first")
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "ab"})
            ctx.step("die", self.die)

        def branch(self, b, name):
            b.rollback_checkpoint("mine")
            b.step("do", self.do, name, rollback=self.undo)

        def die(self):
            raise SimulatedCrash

    trip = Trip.create("one")
    with pytest.raises(SimulatedCrash):
        drive(trip)
    assert {trip.history()[f"all/{n}/do"].rollback.status for n in "ab"} == {"owed"}
    trip.cancel(rollback=True)

    assert drive(trip) == "cancelled"
    assert not [each for each in outside if each.startswith("undo")]
    assert {trip.history()[f"all/{n}/do"].rollback.status for n in "ab"} == {"settled"}


def test_a_handler_that_is_given_up_in_one_branch_is_told_although_a_sibling_was_cancelled(outside):
    """The actor stands still for an operator; after `recover()` it ends as cancelled."""
    working = []

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.join("all", {"bad": lambda b: b.try_block("saga", self.saga, rollback=True), "sibling": self.sibling})

        def saga(self, saga):
            saga.rollback_checkpoint("saga")
            saga.step("do", self.do, "bad", rollback=self.undo_maybe, rollback_max_retries=1)
            saga.step("fail", self.fail)

        def undo_maybe(self, rollback, output):
            if not working:
                raise OSError("busy")
            self.undo(rollback, output)

        def sibling(self, b):
            b.sleep("nap", 10)
            b.step("late", self.do, "late")

    trip = Trip.create("one")
    assert drive(trip) == "rolling_back"
    trip.cancel()
    advance(61)

    assert drive(trip) == "rollback_failed"
    working.append(1)
    trip.recover()
    assert drive(trip) == "cancelled"
    assert outside == ["do bad", "undo bad"]
