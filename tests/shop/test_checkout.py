"""The checkout: each order is confirmed once, or nothing of it is left."""

from __future__ import annotations

from contextlib import suppress

import pytest

from django_rivet.testing import SimulatedCrash
from example_project.shop import gateway
from example_project.shop.actors import BillingActor, CheckoutActor, InventoryActor
from example_project.shop.models import GatewayRequest, Invoice, LedgerEntry

transactional = pytest.mark.django_db(transaction=True)


def reserved():
    return InventoryActor.get_or_create("main").state.reserved


def earned():
    return BillingActor.get_or_create("main").state.earned


def invoices():
    return list(Invoice.objects.values_list("order_id", flat=True))


def ledger():
    return [(entry.order_id, entry.amount) for entry in LedgerEntry.objects.all()]


def keys_of_charges(order_id):
    return list(
        GatewayRequest.objects.filter(order_id=order_id, kind="charge").values_list("idempotency_key", flat=True)
    )


@transactional
def test_a_good_order_is_confirmed(rivet):
    """Reserved, charged and invoiced, and the checkout waits for the next one."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "order-1"})

    assert rivet.drive(checkout) == "sleeping"

    assert str(checkout.history()) == (
        "checkout  loop  running\n"
        "  0  iteration  completed\n"
        "    wait-order  message  completed\n"
        "    order  block  completed\n"
        "      order  checkpoint  completed\n"
        "      reserve  step  completed  1 attempt\n"
        "      charge  step  completed  1 attempt\n"
        "      confirm  step  completed  1 attempt"
    )
    assert checkout.get_state().completed == 1
    assert (reserved(), invoices(), earned()) == (["order-1"], ["order-1"], gateway.PRICE)
    assert ledger() == [("order-1", gateway.PRICE)]


@transactional
def test_a_declined_order_leaves_no_trace_and_the_next_one_succeeds(rivet):
    """SAGA: the loop lives on, ledger and inventory are as before."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "before"})
    rivet.drive(checkout)
    before = (reserved(), invoices(), earned(), ledger())

    checkout.send("orders", {"id": "declined", "card": "declined"})
    assert rivet.drive(checkout) == "sleeping"

    assert (reserved(), invoices(), earned(), ledger()) == before
    assert str(checkout.history()).partition("  1  iteration  completed\n")[2] == (
        "    wait-order  message  completed\n"
        "    order  block  failed  CardDeclined: card 'declined' was declined\n"
        "      order  checkpoint  completed\n"
        "      reserve  step  completed  1 attempt\n"
        "      charge  step  failed  1 attempt  CardDeclined: card 'declined' was declined\n"
        "      charge  rolled back  1 attempt\n"
        "      reserve  rolled back  1 attempt\n"
        "    reject  step  completed  1 attempt"
    )
    state = checkout.get_state()
    assert (state.completed, state.rejected) == (1, ["declined"])
    assert state.last_error["error"]["name"] == "CardDeclined"

    checkout.send("orders", {"id": "after"})
    rivet.drive(checkout)
    assert (reserved(), invoices()) == (["before", "after"], ["before", "after"])


@transactional
def test_a_flaky_gateway_is_asked_under_one_key(rivet):
    """Attempts of a step share its idempotency key, and the card is charged once."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "order", "card": "flaky"})

    rivet.drive(checkout)
    for _ in range(2):
        rivet.advance(2)
        rivet.drive(checkout)

    assert checkout.history()["checkout/0/order/charge"].attempts == 3
    assert len(keys_of_charges("order")) == 3
    assert len(set(keys_of_charges("order"))) == 1
    assert ledger() == [("order", gateway.PRICE)]
    assert invoices() == ["order"]


@transactional
def test_a_charge_that_lands_after_its_time_out_is_refunded(rivet):
    """The outcome is unknown when the step times out, so its handler asks the gateway, and the ledger is even."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "late", "card": "late"})

    rivet.drive(checkout)

    charge = checkout.history()["checkout/0/order/charge"]
    assert (charge.status, charge.error.name) == ("failed", "StepTimeoutError")
    assert (charge.rollback.status, charge.rollback.outcome) == ("completed", "unknown")
    charged, refunded = LedgerEntry.objects.all()
    assert charged.lands_at > charge.ended_at
    assert (charged.amount, refunded.amount) == (gateway.PRICE, -gateway.PRICE)
    assert refunded.lands_at == charged.lands_at
    assert (reserved(), invoices(), earned()) == ([], [], 0)
    assert checkout.get_state().rejected == ["late"]


@transactional
def test_a_worker_that_dies_after_the_charge_does_not_charge_again(rivet):
    """The one that takes over asks under the same key, and is answered with the first charge."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "order"})

    # Commits: the claim, reserve, the start of the charge, and then its record.
    with pytest.raises(SimulatedCrash), rivet.crash_at(4):
        rivet.drive(checkout)
    assert ledger() == [("order", gateway.PRICE)]
    assert checkout.history()["checkout/0/order/charge"].status == "running"
    rivet.drive(checkout)

    assert checkout.history()["checkout/0/order/reserve"].attempts == 1
    assert checkout.history()["checkout/0/order/charge"].attempts == 2
    assert len(keys_of_charges("order")) == 2
    assert len(set(keys_of_charges("order"))) == 1
    assert ledger() == [("order", gateway.PRICE)]
    assert invoices() == ["order"]


@transactional
@pytest.mark.parametrize("after", [False, True], ids=["before-the-commit", "after-the-commit"])
def test_whatever_commit_a_worker_dies_at_each_order_ends_once(rivet, after):
    """Forward and in rollback: confirmed once or compensated once, and the books agree."""
    good, bad, number = [], [], 0
    crashed = True
    while crashed:
        number += 1
        checkout = CheckoutActor.create(f"checkout-{number}")
        good.append(f"good-{number}")
        bad.append(f"bad-{number}")
        checkout.send("orders", {"id": bad[-1], "card": "declined"})
        checkout.send("orders", {"id": good[-1]})

        crashed = _dies_at(rivet, number, after, checkout)
        assert rivet.drive(checkout) == "sleeping"

        state = checkout.get_state()
        assert (state.completed, state.rejected) == (1, bad[-1:]), str(checkout.history())
    assert number > 10
    assert reserved() == good
    assert invoices() == good
    assert ledger() == [(order, gateway.PRICE) for order in good]
    assert earned() == gateway.PRICE * len(good)


@pytest.mark.django_db
def test_the_shop_works_in_a_test_case(rivet):
    """Tests that are rolled back at their end can drive the whole saga too."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "declined", "card": "declined"})
    checkout.send("orders", {"id": "order"})

    rivet.drive(checkout)

    assert invoices() == ["order"]
    assert ledger() == [("order", gateway.PRICE)]


def _dies_at(rivet, number, after, checkout):
    with rivet.crash_at(number, after=after) as point, suppress(SimulatedCrash):
        rivet.drive(checkout)
    return point.crashed
