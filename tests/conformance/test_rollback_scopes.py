"""ROLLBACK: a checkpoint opens the undo scope it stands in; what ends well passes on or is settled."""

import pytest

from django_rivet import workflow
from django_rivet.testing import advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def undo_states(handle):
    """Path and state of each handler on record."""
    return {entry.path: entry.rollback.status for entry in handle.history() if entry.rollback}


def test_rollback_23_an_order_of_an_iteration_that_ended_well_stays(outside):
    """Differs on purpose from the reference: an iteration with a checkpoint of its own settles when it ends well."""

    class Shop(undoable(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                turn.step("reserve", self.do, turn.iteration, rollback=self.undo)
                if turn.iteration == 5:
                    turn.step("charge", self.fail)

    shop = Shop.create("one")

    assert drive(shop) == "failed"

    assert outside == ["do 0", "do 1", "do 2", "do 3", "do 4", "do 5", "undo 5"]
    assert undo_states(shop) == {
        **{f"orders/{n}/reserve": "settled" for n in range(5)},
        "orders/5/reserve": "completed",
    }


def test_rollback_23_seats_reserved_in_a_loop_under_an_outer_checkpoint_are_all_given_back(outside):
    """Differs on purpose: iterations without a checkpoint owe to the one before the loop, also after the loop."""

    class Party(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("party")
            for turn in ctx.loop("seats", state=0):
                if turn.state == 3:
                    break
                turn.step("seat", self.do, turn.iteration, rollback=self.undo)
                turn.state += 1
            ctx.step("charge", self.fail)

    party = Party.create("one")

    assert drive(party) == "failed"

    assert outside == ["do 0", "do 1", "do 2", "undo 2", "undo 1", "undo 0"]


def test_rollback_23_an_iterations_own_checkpoint_passes_on_to_the_one_around_it(outside):
    """Differs on purpose: with a checkpoint around the loop, what an ended iteration owed is owed to that."""

    class Party(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("party")
            for turn in ctx.loop("seats"):
                turn.rollback_checkpoint("guest")
                turn.step("seat", self.do, turn.iteration, rollback=self.undo)
                if turn.iteration == 2:
                    turn.step("charge", self.fail)

    party = Party.create("one")

    assert drive(party) == "failed"

    assert outside[3:] == ["undo 2", "undo 1", "undo 0"]


@pytest.mark.parametrize("leave", ["break", "return", "raise", "raise and catch"])
def test_rollback_23_an_iteration_that_was_left_belongs_to_the_scope_around_the_loop(outside, leave):
    """Differs on purpose: only asking for the next turn ends an iteration well; one that was left stays open."""

    class Shop(undoable(outside)):
        @workflow
        def run(self, ctx):
            try:
                self.shop(ctx)
            except KeyError:
                if leave == "raise":
                    raise
            ctx.step("close", self.fail)

        def shop(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                turn.step("reserve", self.do, turn.iteration, rollback=self.undo)
                if turn.iteration == 1:
                    if leave == "break":
                        break
                    if leave == "return":
                        return
                    raise KeyError("closed")

    shop = Shop.create("one")

    assert drive(shop) == "failed"

    assert outside == ["do 0", "do 1", "undo 1"]


def test_rollback_23_an_iteration_that_a_break_left_is_settled_when_the_workflow_ends_well(outside):
    """Differs on purpose: the scope around the loop, ending well, settles what the last iteration owed."""

    class Shop(undoable(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                turn.step("reserve", self.do, turn.iteration, rollback=self.undo)
                if turn.iteration == 1:
                    break

    shop = Shop.create("one")

    assert drive(shop) == "completed"

    assert undo_states(shop) == {"orders/0/reserve": "settled", "orders/1/reserve": "settled"}


def test_rollback_23_what_a_break_left_in_an_iteration_is_settled_with_that(outside):
    """Differs on purpose: a loop inside an iteration with a checkpoint, left by `break`, ends with that iteration."""

    class Shop(undoable(outside)):
        @workflow
        def run(self, ctx):
            for order in ctx.loop("orders"):
                order.rollback_checkpoint("order")
                for item in order.loop("items"):
                    item.step("reserve", self.do, f"{order.iteration}-{item.iteration}", rollback=self.undo)
                    if item.iteration == 1:
                        break
                if order.iteration == 1:
                    order.step("charge", self.fail)

    shop = Shop.create("one")

    assert drive(shop) == "failed"

    assert outside == ["do 0-0", "do 0-1", "do 1-0", "do 1-1", "undo 1-1", "undo 1-0"]


def test_rollback_23_a_workflow_that_ends_well_settles_everything(outside):
    """Differs on purpose: handlers of a completed workflow never run, and none is owed any more."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.sleep("night", 10)
            ctx.try_block("hotel", lambda block: block.step("room", self.do, "R-1", rollback=self.undo))
            ctx.try_step("upgrade", self.fail)

    trip = Trip.create("one")

    drive(trip)
    assert undo_states(trip) == {"flight": "owed"}
    advance(11)
    assert drive(trip) == "completed"

    assert outside == ["do F-1", "do R-1"]
    assert undo_states(trip) == {"flight": "settled", "hotel/room": "settled"}
    assert not trip.cancel(rollback=True)
