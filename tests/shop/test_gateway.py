"""The fake gateway keeps books that a saga can be judged by."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from example_project.shop import gateway
from example_project.shop.gateway import CardDeclined, GatewayUnavailable, PaymentCalledOff
from example_project.shop.models import GatewayCard, GatewayRequest, LedgerEntry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def impatient(monkeypatch):
    """Whoever would have to wait for the gateway does not."""

    def sleep(seconds):
        if seconds > 0:
            raise TimeoutError

    monkeypatch.setattr(gateway, "sleep", sleep)


def amounts(order_id):
    return [entry.amount for entry in LedgerEntry.objects.filter(order_id=order_id)]


def answers(order_id):
    return [request.answer for request in GatewayRequest.objects.filter(order_id=order_id)]


def test_a_valid_card_is_charged(charge):
    """One request, one charge."""
    charge("order", key="k1")

    assert amounts("order") == [gateway.PRICE]
    assert answers("order") == ["charged"]


def test_a_key_that_is_known_gets_the_first_charge(charge):
    """Asked twice under one key, the gateway charges once."""
    first = charge("order", key="k1")

    assert charge("order", key="k1") == first
    assert amounts("order") == [gateway.PRICE]
    assert answers("order") == ["charged", "charged"]


def test_two_that_ask_at_once_under_one_key_are_charged_once(charge):
    """A worker that was taken for dead may ask next to the one that took over."""
    both = threading.Barrier(2)
    charges = []

    def ask():
        both.wait()
        charges.append(charge("order", key="k1"))

    for thread in [_in_a_thread(ask), _in_a_thread(ask)]:
        thread.join()

    assert len(charges) == 2
    assert len(set(charges)) == 1
    assert amounts("order") == [gateway.PRICE]


def test_a_declined_card_is_declined_again_under_its_key(charge):
    """What the gateway has answered under a key it answers again; under a new one it asks the bank."""
    card = GatewayCard.objects.create(number="4242", behaviour="declined")
    with pytest.raises(CardDeclined, match="card '4242' was declined"):
        charge("order", "4242", key="k1")

    card.behaviour = "valid"
    card.save()

    with pytest.raises(CardDeclined):
        charge("order", "4242", key="k1")
    charge("order", "4242", key="k2")
    assert amounts("order") == [gateway.PRICE]


def test_a_flaky_gateway_charges_at_the_third_request(charge):
    """Two requests get no answer, and none of them charges."""
    for _ in range(2):
        with pytest.raises(GatewayUnavailable):
            charge("order", "flaky", key="k1")
    assert amounts("order") == []

    charge("order", "flaky", key="k1")

    assert amounts("order") == [gateway.PRICE]


def test_a_refund_gives_back_its_charge_once(charge):
    """Asked twice under one key, the gateway refunds once."""
    charge_id = charge("order", key="k1")

    for _ in range(2):
        gateway.refund(charge_id, order="order", idempotency_key="r1")

    assert amounts("order") == [gateway.PRICE, -gateway.PRICE]
    assert answers("order") == ["charged", "refunded", "refunded"]


def test_a_refund_without_a_charge_id_finds_the_charge_by_its_order(charge):
    """The caller does not know that the card was charged; the gateway does."""
    charge("order", key="k1")
    charge("another", key="k2")

    gateway.refund(None, order="order", idempotency_key="r1")

    assert gateway.balance("order") == 0
    assert gateway.balance("another") == gateway.PRICE


@pytest.mark.usefixtures("impatient")
def test_a_charge_lands_though_nobody_waits_for_it_any_more(charge):
    """An interrupted caller does not know, but the money moves when its time has come."""
    with pytest.raises(TimeoutError):
        charge("order", "late", key="k1")

    landing = LedgerEntry.objects.get().lands_at
    assert gateway.balance("order") == 0
    assert gateway.balance("order", landing) == gateway.PRICE


@pytest.mark.usefixtures("impatient")
def test_a_charge_that_is_still_on_its_way_is_refunded_the_moment_it_lands(charge):
    """The refund overtakes the charge, and the ledger is even before, when and after it lands."""
    with pytest.raises(TimeoutError):
        charge("order", "late", key="k1")

    gateway.refund(None, order="order", idempotency_key="r1")

    landing = LedgerEntry.objects.get(kind="charge").lands_at
    around = [landing + timedelta(seconds=seconds) for seconds in (-1, 0, 1)]
    assert [gateway.balance("order", moment) for moment in around] == [0, 0, 0]
    assert amounts("order") == [gateway.PRICE, -gateway.PRICE]


def test_a_charge_that_comes_after_its_refund_is_not_taken(charge):
    """A request that was lost on the way, and arrives when nobody wants it any more, moves no money."""
    gateway.refund(None, order="order", idempotency_key="r1")

    with pytest.raises(PaymentCalledOff):
        charge("order", key="k1")

    assert amounts("order") == []
    assert answers("order") == ["nothing_yet", "called_off"]


def test_a_charge_that_failed_on_the_way_is_void_once_it_was_refunded(charge):
    """A key that was refunded before it charged does not charge later."""
    with pytest.raises(GatewayUnavailable):
        charge("order", "flaky", key="k1")
    gateway.refund(None, order="order", idempotency_key="r1")

    for _ in range(3):
        with pytest.raises(PaymentCalledOff):
            charge("order", "flaky", key="k1")

    assert amounts("order") == []


def test_who_still_means_it_asks_again_and_is_charged(charge):
    """After `recover()` a step asks under a new key, and insists; a late request does not."""
    gateway.refund(None, order="order", idempotency_key="r1")

    with pytest.raises(PaymentCalledOff):
        charge("order", key="k2")
    charge("order", key="k2")

    assert amounts("order") == [gateway.PRICE]


def test_a_refund_of_what_never_came_moves_nothing():
    """No charge, no refund."""
    gateway.refund(None, order="order", idempotency_key="r1")

    assert amounts("order") == []
    assert gateway.balance("order", timezone.now() + timedelta(days=1)) == 0


def test_a_repeated_refund_leaves_a_later_charge_alone(charge):
    """A handler that was cut off and runs again undoes what it was meant for, and nothing newer."""
    charge("order", key="k1")
    gateway.refund(None, order="order", idempotency_key="r1")
    charge("order", key="k2")

    gateway.refund(None, order="order", idempotency_key="r1")

    assert gateway.balance("order") == gateway.PRICE


def test_a_transaction_of_ours_does_not_hold_the_gateway(charge):
    """A step that calls the outside from inside a transaction is refused before anything is charged."""
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        charge("order", key="k1")

    assert answers("order") == []


def _in_a_thread(work):
    def run():
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
