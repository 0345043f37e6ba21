"""The saga over two other actors: an order is paid in time, or stock and books are as before."""

from __future__ import annotations

from contextlib import suppress

import pytest

from django_rivet import ActorNotFoundError
from django_rivet.testing import SimulatedCrash
from example_project.shop import gateway
from example_project.shop.actors import BillingActor, InventoryActor, OrderActor

pytestmark = pytest.mark.django_db(transaction=True)

NOT_PAID = "nothing was paid within 30 s"


def reserved():
    return InventoryActor.get("main").state.reserved


def books():
    return BillingActor.get("transfers").state


def an_order(rivet, order_id="order-1"):
    """It holds its stock and an open bill, and waits for money."""
    order = OrderActor.create(order_id)
    assert rivet.drive(order) == "sleeping"
    return order


def test_an_order_waits_for_its_money_with_stock_held_and_bill_open(rivet):
    """Both stand in the other actors' state, who know nothing of the order's workflow."""
    order = an_order(rivet)

    assert order.waiting_for == ["payments"]
    assert reserved() == ["order-1"]
    assert (books().open, books().earned) == ({"order-1": gateway.PRICE}, 0)


def test_a_paid_order_is_settled(rivet):
    """The good end: the bill is closed and booked, the stock stays reserved."""
    order = an_order(rivet)

    order.send("payments", gateway.PRICE)

    assert rivet.drive(order) == "completed"
    assert order.state.outcome == "paid"
    assert reserved() == ["order-1"]
    assert (books().open, books().earned, books().invoices) == ({}, gateway.PRICE, ["order-1"])


def test_payments_that_came_together_are_taken_together(rivet):
    """One batch, one sum."""
    order = an_order(rivet)

    order.send("payments", 2000)
    order.send("payments", gateway.PRICE - 2000)

    assert rivet.drive(order) == "completed"
    assert order.state.outcome == "paid"


def test_a_wrong_sum_voids_the_bill_and_then_releases_the_stock(rivet):
    """SAGA: the other actors' own actions take back what they did, newest first."""
    other = an_order(rivet, "other")
    order = an_order(rivet)

    order.send("payments", 1)

    assert rivet.drive(order) == "completed"
    assert order.state.outcome == f"1 cents were paid, not {gateway.PRICE}"
    assert str(order.history()) == (
        f"order  block  failed  CriticalError: 1 cents were paid, not {gateway.PRICE}\n"
        "  order  checkpoint  completed\n"
        "  reserve  step  completed  1 attempt\n"
        "  bill  step  completed  1 attempt\n"
        "  wait-payment  message  completed\n"
        f"  settle  step  failed  1 attempt  CriticalError: 1 cents were paid, not {gateway.PRICE}\n"
        "  bill  rolled back  1 attempt\n"
        "  reserve  rolled back  1 attempt\n"
        "close  step  completed  1 attempt"
    )
    assert (reserved(), books().open, books().earned) == (["other"], {"other": gateway.PRICE}, 0)
    assert other.state.outcome == "open"


def test_an_order_that_nobody_pays_is_taken_back_after_30_seconds(rivet):
    """Not a second before; and money that comes later is refused."""
    order = an_order(rivet)

    rivet.advance(29)
    assert rivet.drive(order) == "sleeping"
    assert reserved() == ["order-1"]

    rivet.advance(1)
    assert rivet.drive(order) == "completed"
    assert order.state.outcome == NOT_PAID
    assert (reserved(), books().open, books().earned) == ([], {}, 0)


def test_only_the_order_that_was_late_is_taken_back(rivet):
    """Each order is a saga of its own, over the same two actors."""
    late, paid = an_order(rivet, "late"), an_order(rivet, "paid")

    rivet.advance(20)
    paid.send("payments", gateway.PRICE)
    rivet.drive()
    rivet.advance(10)
    rivet.drive()

    assert (late.state.outcome, paid.state.outcome) == (NOT_PAID, "paid")
    assert (reserved(), books().open, books().earned) == (["paid"], {}, gateway.PRICE)


@pytest.mark.parametrize("after", [False, True], ids=["before-the-commit", "after-the-commit"])
@pytest.mark.parametrize(
    ("payment", "outcome"),
    [(gateway.PRICE, "paid"), (1, f"1 cents were paid, not {gateway.PRICE}"), (None, NOT_PAID)],
    ids=["paid", "wrong sum", "not paid"],
)
def test_whatever_commit_a_worker_dies_at_stock_and_books_agree(rivet, payment, outcome, after):
    """Forward, in the wait and in rollback: each action of the other actors has its effect once."""
    good, number, crashed = [], 0, True
    while crashed:
        number += 1
        order = OrderActor.create(f"order-{number}")
        with rivet.crash_at(number, after=after) as point, suppress(SimulatedCrash):
            to_its_end(order, payment, rivet)
        crashed = point.crashed

        assert to_its_end(order, payment, rivet) == "completed"

        good += [order.key] if outcome == "paid" else []
        assert order.state.outcome == outcome, f"crash at {number}: {order.history()}"
        assert reserved() == good
        assert (books().open, books().invoices, books().earned) == ({}, good, gateway.PRICE * len(good))
    assert number > 5


def to_its_end(order, payment, rivet):
    """The customer pays once, whatever becomes of our workers, or never does."""
    status = rivet.drive(order)
    if status != "completed" and payment is not None:
        order.send("payments", payment, idempotency_key="transfer")
    elif status != "completed":
        rivet.advance(30)
    return rivet.drive(order)


def test_before_the_first_order_there_is_nobody_to_ask(rivet):
    """Inventory and books are made by the first order that needs them."""
    with pytest.raises(ActorNotFoundError):
        InventoryActor.get("main")

    an_order(rivet)

    assert reserved() == ["order-1"]
