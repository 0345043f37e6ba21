"""A payment gateway that stands for another company's computer: nothing that we roll back reaches its books.

It approves, declines, answers slowly, charges when nobody waits any more, and can be asked twice: the card says which
(`GatewayCard`). `charge` and `refund` are what a client library offers; the gateway's own work stands below.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import sleep
from typing import TypeVar

from django.db import connection, transaction
from django.db.models import Q, Sum
from django.utils import timezone

from django_rivet import CriticalError, current_step
from example_project.shop.models import GatewayCard, GatewayOrder, GatewayRequest, LedgerEntry

PRICE = 2500
"""Cents; everything in this shop costs the same."""

SLOW_SECONDS = 3.0
LATE_SECONDS = 6.0
"""Longer than the shop waits for a charge."""

Behaviour = GatewayCard.Behaviour
Answer = GatewayRequest.Answer

T = TypeVar("T")


class CardDeclined(CriticalError):  # noqa: N818 - says what happened
    """The bank said no. Asking again would not change its mind."""


class GatewayUnavailable(Exception):  # noqa: N818 - likewise
    """No answer came, or none that says what happened. Ask again under the same key."""


class PaymentCalledOff(Exception):  # noqa: N818 - likewise
    """The payment was refunded before it arrived, and was not taken. Who still means it asks again."""


def charge(order_id: str, card: str = Behaviour.VALID) -> str:
    """Charge the order, and return the charge's id; the same one however often a step asks.

    The idempotency key is the step's, so a worker that dies in here and the one that takes over charge once.
    """
    key = current_step().idempotency_key
    reply = _at_the_gateway(lambda: _take_charge(order_id, card, key))
    sleep(max(0.0, (reply.answered_at - timezone.now()).total_seconds()))
    match reply.answer:
        case Answer.CHARGED:
            return reply.charge_id
        case Answer.DECLINED:
            raise CardDeclined(f"card {card!r} was declined")
        case Answer.CALLED_OFF:
            raise PaymentCalledOff(f"the payment of {order_id} was called off before it arrived")
        case _:
            raise GatewayUnavailable("the gateway could not be reached")


def refund(charge_id: str | None, *, order: str, idempotency_key: str) -> None:
    """Give the money back; without a `charge_id`, whatever was or will be charged by the requests sent so far.

    A charge that is still on its way is refunded the moment it lands. One that has not been heard of yet is not taken
    when it arrives after all.
    """
    _at_the_gateway(lambda: _take_refund(charge_id, order, idempotency_key))


def balance(order_id: str, at: datetime | None = None) -> int:
    """What the customer has paid for the order, in cents, by now or by a point in time."""
    landed = LedgerEntry.objects.filter(order_id=order_id, lands_at__lte=at or timezone.now())
    return int(landed.aggregate(total=Sum("amount", default=0))["total"])


def ledger_total(account: str) -> int:
    """All that customers have paid by now, in cents. An account behaves as its name says, as cards do."""
    behaviour = _behaviour(account)
    answers = behaviour == Behaviour.VALID or (behaviour == Behaviour.FLAKY and current_step().attempt > 2)
    if not answers:
        raise GatewayUnavailable(f"the ledger of {account!r} could not be reached")
    return int(
        LedgerEntry.objects.filter(lands_at__lte=timezone.now()).aggregate(total=Sum("amount", default=0))["total"]
    )


# The other computer ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """What the gateway says, and when it gets round to saying it."""

    answer: str
    answered_at: datetime
    charge_id: str = ""


def _at_the_gateway(work: Callable[[], T]) -> T:
    """Run it in a thread of its own, which has a database connection of its own.

    So it is committed whatever becomes of us, and it also ends what it began when the caller is interrupted.
    """

    def remotely() -> T:
        try:
            with transaction.atomic():
                return work()
        finally:
            connection.close()

    if connection.in_atomic_block:
        # A TestCase's transaction, which holds all that a test does. `durable` refuses any other: no transaction of
        # ours could take back what the gateway does, so a step that calls it is not to be atomic.
        with transaction.atomic(durable=True):
            return work()
    with ThreadPoolExecutor(1, thread_name_prefix="gateway") as remote:
        return remote.submit(remotely).result()


def _take_charge(order_id: str, card: str, key: str) -> Reply:
    order, now = _locked(order_id), timezone.now()
    answer = _answer(order, card, key)
    order.requests.create(kind=GatewayRequest.Kind.CHARGE, idempotency_key=key, answer=answer, asked_at=now)
    if answer != Answer.CHARGED:
        return Reply(answer, now)
    behaviour = _behaviour(card)
    lands_at = now + timedelta(seconds=LATE_SECONDS if behaviour == Behaviour.LATE else 0)
    entry, is_new = order.ledger.get_or_create(
        kind=LedgerEntry.Kind.CHARGE, idempotency_key=key, defaults={"amount": PRICE, "lands_at": lands_at}
    )
    is_slow = is_new and behaviour == Behaviour.SLOW
    return Reply(answer, entry.lands_at + timedelta(seconds=SLOW_SECONDS if is_slow else 0), entry.charge_id)


def _answer(order: GatewayOrder, card: str, key: str) -> str:
    asked = order.requests.filter(kind=GatewayRequest.Kind.CHARGE, idempotency_key=key)
    first, latest = asked.first(), asked.last()
    if latest is not None and latest.answer in (Answer.CHARGED, Answer.DECLINED):
        return latest.answer
    refunds = order.requests.filter(kind=GatewayRequest.Kind.REFUND)
    # A key that was never heard of may be a late request that was called off, or a new wish: who is called off
    # does not ask twice.
    if first is None and refunds.filter(answer=Answer.NOTHING_YET).exists():
        return Answer.CALLED_OFF
    if first is not None and refunds.filter(id__gt=first.pk).exists():
        return Answer.CALLED_OFF
    match _behaviour(card):
        case Behaviour.DECLINED:
            return Answer.DECLINED
        case Behaviour.FLAKY if asked.count() < 2:
            return Answer.UNAVAILABLE
        case _:
            return Answer.CHARGED


def _take_refund(charge_id: str | None, order_id: str, key: str) -> None:
    order, now = _locked(order_id), timezone.now()
    refunds = order.requests.filter(kind=GatewayRequest.Kind.REFUND)
    repeated = refunds.filter(idempotency_key=key).first()
    answer = repeated.answer if repeated is not None else _refund_charges(order, charge_id, key, now)
    refunds.create(order=order, kind=GatewayRequest.Kind.REFUND, idempotency_key=key, answer=answer, asked_at=now)


def _refund_charges(order: GatewayOrder, charge_id: str | None, key: str, now: datetime) -> str:
    one = Q() if charge_id is None else Q(pk=charge_id.removeprefix("charge-"))
    charges = order.ledger.filter(one, kind=LedgerEntry.Kind.CHARGE, refunded_by=None)
    for each in charges:
        # Not before the charge itself: the ledger is even at every moment from then on.
        order.ledger.create(
            kind=LedgerEntry.Kind.REFUND,
            amount=-each.amount,
            idempotency_key=key,
            refunds=each,
            lands_at=max(now, each.lands_at),
        )
    if charges:
        return Answer.REFUNDED
    last = order.requests.last()
    return Answer.NOTHING_DUE if last is not None and last.kind == GatewayRequest.Kind.CHARGE else Answer.NOTHING_YET


def _locked(order_id: str) -> GatewayOrder:
    GatewayOrder.objects.get_or_create(order_id=order_id)
    return GatewayOrder.objects.select_for_update().get(order_id=order_id)


def _behaviour(card: str) -> str:
    row = GatewayCard.objects.filter(number=card).first()
    return row.behaviour if row is not None else card
