"""The same saga directly in the loop, without a block: a failure ends the workflow, and an operator takes it up."""

from __future__ import annotations

from contextlib import suppress

import pytest

from django_rivet.testing import SimulatedCrash
from example_project.shop import gateway
from example_project.shop.actors import DirectCheckoutActor, InventoryActor
from example_project.shop.models import GatewayCard, GatewayRequest, Invoice, LedgerEntry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def failed(rivet):
    """A checkout that has confirmed one order, and failed at the card of the second."""
    GatewayCard.objects.create(number="4242", behaviour="declined")
    checkout = DirectCheckoutActor.create("main")
    checkout.send("orders", {"id": "first"})
    checkout.send("orders", {"id": "second", "card": "4242"})
    checkout.send("orders", {"id": "third"})
    rivet.drive(checkout)
    return checkout


def reserved():
    return InventoryActor.get_or_create("main").state.reserved


def invoices():
    return list(Invoice.objects.values_list("order_id", flat=True))


def paid():
    return {entry.order_id: gateway.balance(entry.order_id) for entry in LedgerEntry.objects.all()}


def test_a_declined_card_fails_the_workflow_after_the_same_rollback(failed):
    """SAGA: the failed order is compensated, and orders of earlier iterations stay."""
    assert failed.status == "failed"
    assert str(failed.error) == "CriticalError: CardDeclined: card '4242' was declined"
    assert str(failed.history()) == (
        "checkout  loop  failed\n"
        "  0  iteration  completed\n"
        "    wait-order  message  completed\n"
        "    order  checkpoint  completed\n"
        "    reserve  step  completed  1 attempt\n"
        "    charge  step  completed  1 attempt\n"
        "    confirm  step  completed  1 attempt\n"
        "  1  iteration  running\n"
        "    wait-order  message  completed\n"
        "    order  checkpoint  completed\n"
        "    reserve  step  completed  1 attempt\n"
        "    charge  step  failed  1 attempt  CardDeclined: card '4242' was declined\n"
        "    charge  rolled back  1 attempt\n"
        "    reserve  rolled back  1 attempt"
    )
    assert reserved() == ["first"]
    assert invoices() == ["first"]
    assert paid() == {"first": gateway.PRICE}


def test_recover_takes_the_failed_order_up_again(failed, rivet):
    """The compensated step runs again, the charge under a new key; then the loop goes on."""
    GatewayCard.objects.update(behaviour="valid")

    assert failed.recover()
    assert rivet.drive(failed) == "sleeping"

    assert reserved() == ["first", "second", "third"]
    assert invoices() == ["first", "second", "third"]
    assert paid() == dict.fromkeys(["first", "second", "third"], gateway.PRICE)
    asked = GatewayRequest.objects.filter(order_id="second", kind="charge")
    assert [request.answer for request in asked] == ["declined", "charged"]
    assert len({request.idempotency_key for request in asked}) == 2
    assert failed.get_state().completed == 3
    assert failed.error is None


def test_recover_of_a_card_that_is_still_declined_compensates_again(failed, rivet):
    """Each time the order fails, what was done for it is undone; nothing adds up."""
    for _ in range(2):
        assert failed.recover()
        assert rivet.drive(failed) == "failed"

    assert reserved() == ["first"]
    assert paid() == {"first": gateway.PRICE}
    assert failed.get_state().completed == 1


def test_an_order_that_times_out_is_undone_and_ends_the_workflow(rivet):
    """Whether the card was charged nobody knows, so the gateway is asked to refund whatever it was."""
    checkout = DirectCheckoutActor.create("main")
    checkout.send("orders", {"id": "late", "card": "late"})

    assert rivet.drive(checkout) == "failed"

    assert checkout.error.name == "StepTimeoutError"
    charged, refunded = LedgerEntry.objects.all()
    assert (charged.amount, refunded.amount) == (gateway.PRICE, -gateway.PRICE)
    assert reserved() == []


@pytest.mark.parametrize("after", [False, True], ids=["before-the-commit", "after-the-commit"])
def test_whatever_commit_a_worker_dies_at_the_good_order_stays_and_the_bad_one_is_undone(rivet, after):
    """The order of the earlier iteration is charged once, the failing one leaves nothing."""
    good, number, crashed = [], 0, True
    while crashed:
        number += 1
        good.append(f"good-{number}")
        checkout = DirectCheckoutActor.create(f"checkout-{number}")
        checkout.send("orders", {"id": good[-1]})
        checkout.send("orders", {"id": f"bad-{number}", "card": "declined"})
        with rivet.crash_at(number, after=after) as point, suppress(SimulatedCrash):
            rivet.drive(checkout)
        crashed = point.crashed

        assert rivet.drive(checkout) == "failed"

        assert checkout.get_state().completed == 1, f"crash at {number}: {checkout.history()}"
    assert number > 10
    assert reserved() == invoices() == good
    assert paid() == dict.fromkeys(good, gateway.PRICE)
