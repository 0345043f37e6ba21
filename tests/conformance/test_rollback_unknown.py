"""ROLLBACK: steps whose outcome is unknown, undone where `rollback_when="attempted"` asks for it."""

import pytest

from django_rivet import CriticalError, current_step, workflow
from django_rivet.testing import SimulatedCrash, advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def cashier(outside):
    """A base for actors that charge a card, and a handler that tells what it was given."""

    class Cashier(undoable(outside)):
        class Meta:
            abstract = True

        def refund(self, rollback, charge):
            outside.append(("refund", list(rollback.args), charge, rollback.outcome))

    return Cashier


@pytest.mark.parametrize("end", [CriticalError, OSError, "timeout"])
def test_rollback_08_a_step_that_was_attempted_is_undone_where_that_is_asked_for(outside, end):
    """A non-atomic step that began and failed gets its handler with no output and the outcome "unknown"."""

    class Order(cashier(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", self.do, "seat", rollback=self.undo)
            ctx.step(
                "charge",
                self.charge,
                "visa",
                atomic=False,
                max_retries=0,
                timeout=0.05,
                rollback=self.refund,
                rollback_when="attempted",
                rollback_timeout=30,
            )

        def charge(self, card):
            outside.append(f"charged {card}")
            while end == "timeout":
                pass
            raise end("no answer")

    order = Order.create("one")

    assert drive(order) == "failed"

    assert outside == ["do seat", "charged visa", ("refund", ["visa"], None, "unknown"), "undo seat"]


def test_rollback_08_a_completed_step_is_known_also_where_attempts_count(outside):
    """With `rollback_when="attempted"` a step that completed gets its output and the outcome "completed"."""

    class Order(cashier(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", self.charge, "visa", atomic=False, rollback=self.refund, rollback_when="attempted")
            ctx.step("confirm", self.fail)

        def charge(self, card):
            if current_step().attempt == 1:
                raise OSError("busy")
            return "ch-1"

    order = Order.create("one")

    drive(order)
    advance(1)
    assert drive(order) == "failed"

    assert outside == [("refund", ["visa"], "ch-1", "completed")]


def test_rollback_08_on_an_atomic_step_attempted_means_completed(outside):
    """A failed atomic body left nothing, so there is nothing to undo."""

    class Order(cashier(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("a", self.do, "A", rollback=self.refund, rollback_when="attempted")
            ctx.step("b", self.fail, "B", rollback=self.refund, rollback_when="attempted")

    order = Order.create("one")

    assert drive(order) == "failed"

    assert outside == ["do A", ("refund", ["A"], "A", "completed")]


def test_rollback_08_without_being_asked_a_failed_call_to_the_outside_is_not_undone(outside):
    """By default, also for a non-atomic step, only a recorded output is undone."""

    class Order(cashier(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", self.fail, atomic=False, rollback=self.refund)

    order = Order.create("one")

    assert drive(order) == "failed"

    assert outside == []


def test_rollback_08_a_call_that_a_dying_worker_cut_off_is_undone_after_a_cancellation(outside):
    """The start is on record before the body, so a cancelled actor knows what may have happened."""

    class Order(cashier(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", self.charge, "visa", atomic=False, rollback=self.refund, rollback_when="attempted")

        def charge(self, card):
            outside.append(f"charged {card}")
            raise SimulatedCrash

    order = Order.create("one")

    with pytest.raises(SimulatedCrash):
        drive(order)
    order.cancel(rollback=True)
    assert drive(order) == "cancelled"

    assert outside == ["charged visa", ("refund", ["visa"], None, "unknown")]


def test_rollback_08_in_a_scoped_block_the_attempted_step_is_undone_too(outside):
    """Where money may have moved, a scoped block undoes the step whose failure ended it, before those before it."""

    class Order(cashier(outside)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("order", self.take, rollback=True)
            return result.failure.step_name

        def take(self, saga):
            saga.rollback_checkpoint("order")
            saga.step("reserve", self.do, "seat", rollback=self.undo)
            saga.step("charge", self.fail, "visa", atomic=False, rollback=self.refund, rollback_when="attempted")

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "charge"
    assert outside == ["do seat", ("refund", ["visa"], None, "unknown"), "undo seat"]


def test_rollback_08_a_step_that_may_run_only_once_is_undone_when_it_was_interrupted(outside):
    """An `at_most_once` step that was cut off is not run again; its handler hears that the outcome is unknown."""

    class Order(cashier(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", self.charge, "visa", at_most_once=True, rollback=self.refund, rollback_when="attempted")

        def charge(self, card):
            outside.append(f"charged {card}")
            raise SimulatedCrash

    order = Order.create("one")

    with pytest.raises(SimulatedCrash):
        drive(order)
    assert drive(order) == "failed"

    assert order.error.name == "StepInterruptedError"
    assert outside == ["charged visa", ("refund", ["visa"], None, "unknown")]
