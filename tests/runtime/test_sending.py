"""Creating and sending obey the caller's transaction."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from celery import current_app
from django.db import transaction

from django_rivet import ActorNotFoundError
from django_rivet.models import Message
from django_rivet.runtime import bell
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was sent to Celery, by a broker that takes everything."""
    sent: list[str] = []
    monkeypatch.setattr(bell, "has_broker", lambda app: True)
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **options: sent.append(args[0]))
    return sent


class UndoneError(Exception):
    pass


def test_a_transaction_that_rolls_back_has_sent_and_made_nothing(shop: SimpleNamespace, hints: list[str]) -> None:
    """No actor, no message, no hint."""
    with suppress(UndoneError), transaction.atomic():
        shop.Checkout.create("main").send("orders", {"id": "1"})
        raise UndoneError

    assert hints == []
    with pytest.raises(ActorNotFoundError):
        shop.Checkout.get("main")


def test_a_hint_is_sent_only_after_the_commit(shop: SimpleNamespace, hints: list[str]) -> None:
    """Else a worker would look for a message that it cannot see yet."""
    with transaction.atomic():
        actor = shop.Checkout.create("main")
        actor.send("orders", {"id": "1"})
        assert hints == []

    assert bell.drain(10)
    assert set(hints) == {actor.id}


def test_a_savepoint_that_rolls_back_takes_its_message_along(shop: SimpleNamespace) -> None:
    """What the outer transaction sent stays."""
    actor = shop.Checkout.create("main")
    with transaction.atomic():
        actor.send("orders", {"id": "kept"})
        with suppress(UndoneError), transaction.atomic():
            actor.send("orders", {"id": "undone"})
            raise UndoneError

    drive(actor)

    assert actor.state.completed == ["kept"]


def test_with_the_broker_down_the_message_is_stored_and_worked_on_later(
    shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint that cannot be sent costs latency and nothing else."""

    def refused(*args: object, **options: object) -> None:
        raise ConnectionRefusedError("no broker")

    monkeypatch.setattr(bell, "has_broker", lambda app: True)
    monkeypatch.setattr(current_app, "send_task", refused)
    actor = shop.Checkout.create("main")
    receipt = actor.send("orders", {"id": "1"})
    assert bell.drain(10)

    drive()

    assert receipt.status == "queued"
    assert actor.state.completed == ["1"]


def test_nobody_waits_for_a_broker_that_hangs(shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating and sending answer at once; the hint goes out when the broker is back."""
    is_back = threading.Event()
    sent: list[str] = []

    def hang(name: str, args: list[str], **options: object) -> None:
        assert is_back.wait(30)
        sent.append(args[0])

    monkeypatch.setattr(bell, "has_broker", lambda app: True)
    monkeypatch.setattr(current_app, "send_task", hang)

    actor = shop.Checkout.create("main")
    receipt = actor.send("orders", {"id": "1"})

    assert receipt.status == "queued"
    assert sent == []
    is_back.set()
    assert bell.drain(10)
    assert set(sent) == {actor.id}


def test_messages_are_taken_in_order_of_sending(shop: SimpleNamespace) -> None:
    """Also those that were sent in one transaction."""
    actor = shop.Checkout.create("main")
    actor.send("orders", {"id": "1"})
    with transaction.atomic():
        actor.send("orders", {"id": "2"})
        actor.send("orders", {"id": "3"})

    drive(actor)

    assert actor.state.completed == ["1", "2", "3"]


def test_a_delayed_message_joins_when_it_is_due(shop: SimpleNamespace) -> None:
    """It is not seen before, and then taken in its old place."""
    actor = shop.Checkout.create("main")
    actor.send("orders", {"id": "late"}, delay=60)
    actor.send("orders", {"id": "early"})

    assert drive(actor) == "sleeping"
    assert actor.state.completed == ["early"]
    actor.send("orders", {"id": "last"}, delay=59)
    advance(61)
    drive(actor)

    assert actor.state.completed == ["early", "late", "last"]


def test_the_same_idempotency_key_and_body_give_the_first_receipt(shop: SimpleNamespace) -> None:
    """A client that did not hear the answer may ask again, also after the message was handled."""
    actor = shop.Checkout.create("main")
    first = actor.send("orders", {"id": "1", "size": "M"}, idempotency_key="k")
    drive(actor)

    again = actor.send("orders", {"size": "M", "id": "1"}, idempotency_key="k")
    drive(actor)

    assert again == first
    assert actor.state.completed == ["1"]
    assert Message.objects.count() == 1


def test_the_same_idempotency_key_serves_every_actor_once(shop: SimpleNamespace) -> None:
    """Its scope is the actor: another one's message is not swallowed."""
    one, other = shop.Checkout.create("one"), shop.Checkout.create("other")
    one.send("orders", {"id": "1"}, idempotency_key="k")
    other.send("orders", {"id": "1"}, idempotency_key="k")

    drive()

    assert (one.state.completed, other.state.completed) == (["1"], ["1"])
