"""The same saga directly in the loop, without a block: a failure ends the workflow, and an operator takes it up."""

from __future__ import annotations

import pytest

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
