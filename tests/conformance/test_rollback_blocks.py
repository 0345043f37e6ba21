"""ROLLBACK: what a block owes, plain or scoped, when it ends well and when it does not."""

import pytest

from django_rivet import workflow
from django_rivet.testing import advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def undo_states(handle):
    """Path and state of each handler on record."""
    return {entry.path: entry.rollback.status for entry in handle.history() if entry.rollback}


@pytest.mark.parametrize("scoped", [False, True])
def test_rollback_23_a_block_that_ended_well_is_settled_where_no_checkpoint_is_around_it(outside, scoped):
    """Differs on purpose: what a block did stays done, whatever happens after it."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_block("flight", self.book, rollback=scoped)
            ctx.step("hotel", self.fail)

        def book(self, block):
            block.rollback_checkpoint("flight")
            block.step("seat", self.do, "1A", rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do 1A"]
    assert undo_states(trip) == {"flight/seat": "settled"}


def test_rollback_23_nested_blocks_pass_on_from_scope_to_scope(outside):
    """Differs on purpose: each block that ends well hands what it owes to the nearest checkpoint around it."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("outer", self.outer, rollback=True)
            ctx.step("report", self.do, result.failure.error.message)
            ctx.step("home", self.fail)

        def outer(self, block):
            block.rollback_checkpoint("outer")
            block.step("a", self.do, "A", rollback=self.undo)
            block.try_block("middle", self.middle, rollback=True)
            block.step("d", self.do, "D", rollback=self.undo)
            block.step("e", self.fail, "outer failed")

        def middle(self, block):
            block.rollback_checkpoint("middle")
            block.step("b", self.do, "B", rollback=self.undo)
            block.try_block("inner", self.inner)

        def inner(self, block):
            block.step("c", self.do, "C", rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[4:] == ["undo D", "undo C", "undo B", "undo A", "do outer failed"]


def test_rollback_23_a_scoped_block_undoes_its_own_steps_only(outside):
    """Differs on purpose: the steps around a block that failed keep their effect, and the workflow goes on."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            assert not ctx.try_block("hotel", self.hotel, rollback=True).ok
            ctx.step("tent", self.do, "T-2", rollback=self.undo)

        def hotel(self, block):
            block.step("room", self.do, "R-1", rollback=self.undo)
            block.step("parking", self.do, "P-1", rollback=self.undo)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert outside == ["do F-1", "do R-1", "do P-1", "undo P-1", "undo R-1", "do T-2"]
    assert str(trip.history()).splitlines() == [
        "trip  checkpoint  completed",
        "flight  step  completed  1 attempt",
        "hotel  block  failed  CriticalError: no",
        "  room  step  completed  1 attempt",
        "  parking  step  completed  1 attempt",
        "  breakfast  step  failed  1 attempt  CriticalError: no",
        "  parking  rolled back  1 attempt",
        "  room  rolled back  1 attempt",
        "tent  step  completed  1 attempt",
    ]


def test_rollback_23_an_inner_scoped_block_that_was_undone_is_not_undone_again(outside):
    """Differs on purpose: what a block has undone is done with, when the block around it fails as well."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            assert not ctx.try_block("outer", self.outer, rollback=True).ok

        def outer(self, block):
            block.rollback_checkpoint("outer")
            block.step("a", self.do, "A", rollback=self.undo)
            assert not block.try_block("inner", self.inner, rollback=True).ok
            block.step("c", self.do, "C", rollback=self.undo)
            block.step("d", self.fail)

        def inner(self, block):
            block.step("b", self.do, "B", rollback=self.undo)
            block.step("b failed", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert outside == ["do A", "do B", "undo B", "do C", "undo C", "undo A"]


def test_rollback_23_an_ephemeral_step_owes_like_any_other(outside):
    """Differs on purpose: a step whose record was put off is undone as well."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo, ephemeral=True)
            raise KeyError("price")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do F-1", "undo F-1"]


def test_rollback_23_a_block_that_failed_and_was_caught_passes_on_what_it_owes(outside):
    """Differs on purpose: a plain block undoes nothing; its steps are undone with the scope around it."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            assert not ctx.try_block("hotel", self.hotel).ok
            ctx.step("car", self.do, "C-3", rollback=self.undo)
            ctx.step("home", self.fail)

        def hotel(self, block):
            block.rollback_checkpoint("hotel")
            block.step("room", self.do, "R-1", rollback=self.undo)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do R-1", "do C-3", "undo C-3", "undo R-1"]


def test_rollback_23_a_caught_failure_is_owed_to_the_scope_around_even_without_a_checkpoint(outside):
    """Differs on purpose: with no checkpoint around, what the failed block owes is owed to the scope around it."""

    class Shop(undoable(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                assert not turn.try_block("order", self.order).ok
                if turn.iteration == 1:
                    turn.step("report", self.fail)

        def order(self, block):
            block.rollback_checkpoint("order")
            block.step("reserve", self.do, block.scope.path, rollback=self.undo)
            block.step("charge", self.fail)

    shop = Shop.create("one")

    assert drive(shop) == "failed"

    assert outside == ["do orders/0/order", "do orders/1/order", "undo orders/1/order"]
    assert undo_states(shop) == {"orders/0/order/reserve": "settled", "orders/1/order/reserve": "completed"}


def test_rollback_23_a_failure_that_try_step_caught_is_settled_with_its_scope(outside):
    """Differs on purpose: a step with an unknown outcome whose failure was caught is like any other of its scope."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                assert not turn.try_step(
                    "charge", self.charge, turn.iteration, atomic=False, rollback=self.refund, rollback_when="attempted"
                ).ok
                if turn.iteration == 1:
                    turn.step("confirm", self.fail)

        def charge(self, number):
            self.do(number)
            self.fail("declined")

        def refund(self, rollback, charge):
            outside.append((rollback.args[0], rollback.outcome, charge))

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do 0", "do 1", (1, "unknown", None)]
    assert undo_states(trip) == {"orders/0/charge": "settled", "orders/1/charge": "completed"}


@pytest.mark.parametrize("ok", [True, False])
def test_rollback_23_a_scoped_block_that_has_an_outcome_is_not_entered_again(outside, ok):
    """Differs on purpose: good or bad, its outcome is an entry, and later passes get it as it was."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("stay", self.stay, rollback=True)
            ctx.sleep("night", 10)
            return [result.ok, result.value, result.failure and str(result.failure.error)]

        def stay(self, block):
            outside.append("entered")
            block.rollback_checkpoint("stay")
            block.step("room", self.do, "R-1", rollback=self.undo)
            if not ok:
                raise KeyError("breakfast")
            return "slept"

    trip = Trip.create("one")

    drive(trip)
    advance(11)
    assert drive(trip) == "completed"

    if ok:
        assert trip.output == [True, "slept", None]
        assert outside == ["entered", "do R-1"]
    else:
        assert trip.output == [False, None, "KeyError: 'breakfast'"]
        assert outside == ["entered", "do R-1", "undo R-1"]


def test_rollback_23_a_scoped_block_whose_value_cannot_be_stored_has_failed(outside):
    """Differs on purpose: without a storable value it has no outcome to replay, so its steps are undone."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("stay", self.stay, rollback=True)
            return [result.ok, result.failure.source, result.failure.error.name]

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("room", self.do, "R-1", rollback=self.undo)
            return object()

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert trip.output == [False, "block", "OutputNotSerializableError"]
    assert outside == ["do R-1", "undo R-1"]
