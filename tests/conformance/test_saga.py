"""SAGA: orders that reserve, charge and confirm, and take it all back where one of them fails."""

import pytest

from django_rivet import Actor, CriticalError, Queue, action, workflow
from django_rivet.testing import advance, drive
from tests.conformance.undoable import shop

pytestmark = pytest.mark.django_db


def test_saga_01_a_failed_order_is_refunded_and_then_released(outside):
    """Each handler runs once, newest first, with the id its step returned; the original error stands."""

    class Shop(shop(outside)):
        @workflow
        def run(self, ctx):
            self.take(ctx, "bad-1")

    order = Shop.create("one")

    assert drive(order) == "failed"

    assert outside == ["reserve bad-1", "charge bad-1", "refund charge-bad-1", "release reservation-bad-1"]
    assert str(order.error) == "CriticalError: bad-1 is not deliverable"


def test_saga_02_in_a_loop_over_messages_the_failing_order_is_taken_back(outside):
    """Differs on purpose from the reference, where this documented shape compensates nothing.

    Orders of earlier iterations stay.
    """

    class Shop(shop(outside)):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("shop"):
                self.take(turn, turn.queue.next("wait-order", ["orders"]).body)

    desk = Shop.create("one")
    for order in ("good-1", "bad-2", "good-3"):
        desk.send("orders", order)

    assert drive(desk) == "failed"

    assert outside[3:] == ["reserve bad-2", "charge bad-2", "refund charge-bad-2", "release reservation-bad-2"]


def test_saga_03_a_scoped_saga_fails_alone(outside):
    """Differs on purpose from the reference, where one bad order ends the shop: the failure is data here."""

    class Shop(shop(outside)):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("shop"):
                order = turn.queue.next("wait-order", ["orders"]).body
                result = turn.try_block("saga", lambda saga, order=order: self.take(saga, order), rollback=True)
                if not result.ok:
                    turn.step("reject", self.reject, order, result.failure.error.message)

        def reject(self, order, reason):
            outside.append(f"reject {order}: {reason}")

    desk = Shop.create("one")
    for order in ("good-1", "bad-2", "good-3"):
        desk.send("orders", order)

    assert drive(desk) == "sleeping"

    assert outside == [
        *("reserve good-1", "charge good-1", "confirm good-1"),
        *("reserve bad-2", "charge bad-2", "refund charge-bad-2", "release reservation-bad-2"),
        "reject bad-2: bad-2 is not deliverable",
        *("reserve good-3", "charge good-3", "confirm good-3"),
    ]
    assert str(desk.history()).splitlines()[8:20] == [
        "  1  iteration  completed",
        "    wait-order  message  completed",
        "    saga  block  failed  CriticalError: bad-2 is not deliverable",
        "      order  checkpoint  completed",
        "      reserve  step  completed  1 attempt",
        "      charge  step  completed  1 attempt",
        "      confirm  step  failed  1 attempt  CriticalError: bad-2 is not deliverable",
        "      charge  rolled back  1 attempt",
        "      reserve  rolled back  1 attempt",
        "    reject  step  completed  1 attempt",
        "  2  iteration  completed",
        "    wait-order  message  completed",
    ]


def test_saga_05_a_failing_refund_is_retried_given_up_and_resumed(outside):
    """Differs on purpose: with backoff first, then visible as `rollback_failed`, then resumed by `recover()`."""
    bank_is_open = []

    class Shop(shop(outside)):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("shop"):
                order = turn.queue.next("wait-order", ["orders"]).body
                turn.try_block("saga", lambda saga, order=order: self.take(saga, order), rollback=True)

        def refund(self, rollback, charge):
            outside.append(f"refund attempt {rollback.attempt}")
            if not bank_is_open:
                raise OSError("bank is closed")

    desk = Shop.create("one")
    desk.send("orders", "bad-1")
    desk.send("orders", "good-2")

    for _ in range(3):
        assert drive(desk) == "rolling_back"
        advance(31)
    assert drive(desk) == "rollback_failed"
    assert outside[2:] == [f"refund attempt {n}" for n in (1, 2, 3, 4)]
    assert str(desk.error) == "OSError: bank is closed"

    bank_is_open.append("today")
    desk.recover()
    assert drive(desk) == "sleeping"

    assert outside[6:] == [
        *("refund attempt 1", "release reservation-bad-1"),
        *("reserve good-2", "charge good-2", "confirm good-2"),
    ]


def test_saga_07_a_compensation_may_call_other_actors(outside):
    """Reserving and releasing are calls of another actor, and land with the record of the step and of the handler."""

    class Inventory(Actor):
        class State:
            reserved: list[str] = []

        @action
        def reserve(self, order: str) -> str:
            self.state.reserved.append(order)
            return order

        @action
        def release(self, order: str) -> None:
            self.state.reserved.remove(order)
            outside.append(f"released {order}")

    class Shop(shop(outside)):
        @workflow
        def run(self, ctx):
            self.take(ctx, self.key)

        def reserve(self, order):
            return Inventory.get_or_create("main").reserve(order)

        def release(self, rollback, reservation):
            Inventory.get("main").release(reservation)
            if rollback.attempt == 1:
                raise OSError("the shelf is stuck")

    assert drive(Shop.create("good")) == "completed"
    bad = Shop.create("bad")
    drive(bad)
    assert Inventory.get("main").state.reserved == ["good", "bad"], "a failed attempt leaves the other actor alone"
    advance(1)
    assert drive(bad) == "failed"

    assert Inventory.get("main").state.reserved == ["good"]


@pytest.mark.parametrize("approved", [True, False])
def test_saga_10_human_approval_with_a_deadline(outside, approved):
    """An approval in time goes on; none before the deadline takes the other path; both over worker restarts."""

    class Shop(shop(outside)):
        approvals = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", self.reserve, "book", rollback=self.release)
            found = ctx.queue.next_batch("approval", ["approvals"], timeout=3600)
            if not found:
                raise CriticalError("nobody approved")
            ctx.step("charge", self.charge, found[0].body)

    order = Shop.create("one")

    assert drive(order) == "sleeping"
    advance(3000)
    assert drive(order) == "sleeping"
    if approved:
        order.send("approvals", "visa")
        assert drive(order) == "completed"
        assert outside == ["reserve book", "charge visa"]
    else:
        advance(601)
        assert drive(order) == "failed"
        assert outside == ["reserve book", "release reservation-book"]


def test_saga_11_a_caught_failure_in_the_middle_does_not_hide_what_to_undo(outside):
    """Differs on purpose: an optional step fails and is caught, a later one fails: all around it is undone."""

    class Shop(shop(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", self.reserve, "book", rollback=self.release)
            assert not ctx.try_step("gift wrap", self.confirm, "bad paper", rollback=self.release).ok
            ctx.step("charge", self.charge, "visa", rollback=self.refund)
            ctx.step("confirm", self.confirm, "bad-1")

    order = Shop.create("one")

    assert drive(order) == "failed"

    assert outside[2:] == ["refund charge-visa", "release reservation-book"]


@pytest.mark.parametrize("when", ["completed", "attempted"])
def test_saga_12_a_charge_that_timed_out_may_be_compensated(outside, when):
    """Differs on purpose: by default its handler does not run; `rollback_when="attempted"` tells it "unknown"."""

    class Shop(shop(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", self.reserve, "book", rollback=self.release)
            ctx.step(
                "charge",
                self.charge,
                "visa",
                atomic=False,
                timeout=0.05,
                rollback=self.refund,
                rollback_when=when,
                rollback_timeout=30,
            )

        def charge(self, order):
            while True:
                pass

        def refund(self, rollback, charge):
            outside.append(f"refund {rollback.args[0]}: {charge}, {rollback.outcome}")

    order = Shop.create("one")

    assert drive(order) == "failed"

    assert order.error.name == "StepTimeoutError"
    refunds = ["refund visa: None, unknown"] if when == "attempted" else []
    assert outside == ["reserve book", *refunds, "release reservation-book"]
