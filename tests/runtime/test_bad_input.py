"""Bad input is refused with a clear error, and nothing is lost or stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import django_rivet as rivet
from django_rivet.models import Actor, Message
from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

BAD_VALUES: list[tuple[str, Any, str]] = [
    ("NaN", {"total": float("nan")}, "body.total"),
    ("infinity", {"items": [1, float("inf")]}, "body.items[1]"),
    ("NUL", {"name": "a\x00b"}, "body.name"),
    ("surrogate", {"name": "\ud800"}, "body.name"),
    ("object", {"thing": object()}, "body.thing"),
    ("set", {"tags": {1}}, "body.tags"),
    ("key", {1: "one"}, "body"),
]


@pytest.mark.parametrize(("body", "path"), [(b, p) for _, b, p in BAD_VALUES], ids=[name for name, _, _ in BAD_VALUES])
def test_a_body_that_cannot_be_stored_is_refused_naming_the_place(shop: SimpleNamespace, body: Any, path: str) -> None:
    """Both databases refuse the same things, before either is asked."""
    actor = shop.Checkout.create("main")

    with pytest.raises(rivet.InvalidInputError) as refusal:
        actor.send("orders", body)

    assert refusal.value.errors[0]["path"].startswith(path)
    assert not Message.objects.exists()


@pytest.mark.parametrize("body", [None, [], "text", 1])
def test_a_body_of_the_wrong_type_is_refused(shop: SimpleNamespace, body: Any) -> None:
    """The queue says what it takes."""
    with pytest.raises(rivet.InvalidInputError, match="body"):
        shop.Checkout.create("main").send("orders", body)


def test_an_undeclared_queue_is_refused_with_a_near_name(shop: SimpleNamespace) -> None:
    """A message is never dropped in silence."""
    with pytest.raises(rivet.UnknownQueueError, match="'orders'"):
        shop.Checkout.create("main").send("order", {})


def test_an_unknown_action_is_refused_both_ways(shop: SimpleNamespace) -> None:
    """By name it is an UnknownActionError, as an attribute an AttributeError."""
    actor = shop.Checkout.create("main")
    with pytest.raises(rivet.UnknownActionError):
        actor.call("explode")
    with pytest.raises(AttributeError, match="explode"):
        actor.explode()


@pytest.mark.parametrize("arguments", [(), (1, 2), ([],)])
def test_wrong_arguments_of_an_action_are_refused(shop: SimpleNamespace, arguments: tuple[Any, ...]) -> None:
    """Never a TypeError out of the method, and the state is as it was."""
    stock = shop.Stock.create("main")

    with pytest.raises(rivet.InvalidInputError):
        stock.call("reserve", *arguments)

    assert stock.state.reserved == []


@pytest.mark.parametrize(
    "key", ["", ".", "..", "a/b", "a\nb", "a\x00", "\ud800", (), ("a", ""), ["a", ".."], "x" * 1025, 5, None]
)
def test_a_bad_key_is_refused(shop: SimpleNamespace, key: Any) -> None:
    """No actor is made, and none is looked for."""
    with pytest.raises(rivet.InvalidKeyError):
        shop.Checkout.get_or_create(key)

    assert not Actor.objects.exists()


def test_a_message_over_the_limit_is_refused_with_its_size(shop: SimpleNamespace) -> None:
    """64 KiB unless the actor says otherwise."""
    with pytest.raises(rivet.MessageTooLargeError, match=r"7\d{4} bytes.*65536"):
        shop.Checkout.create("main").send("orders", {"id": "x" * 70_000})

    assert not Message.objects.exists()


def test_a_full_queue_refuses_and_keeps_what_it_has(shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was accepted is dropped for the new message."""
    import dataclasses

    definition = shop.Checkout.definition
    small = dataclasses.replace(definition, meta=dataclasses.replace(definition.meta, max_queue_size=2))
    monkeypatch.setattr(shop.Checkout, "definition", small)
    actor = shop.Checkout.create("main")
    actor.send("orders", {"id": "1"})
    actor.send("orders", {"id": "2"})

    with pytest.raises(rivet.QueueFullError, match="2 unhandled messages"):
        actor.send("orders", {"id": "3"})
    drive(actor)

    assert actor.state.completed == ["1", "2"]


def test_a_finished_workflow_takes_no_more_messages(shop: SimpleNamespace) -> None:
    """Accepted and lost is the one thing that may not happen."""
    actor = shop.Checkout.create("main")
    actor.cancel()

    with pytest.raises(rivet.WorkflowFinishedError, match="cancelled"):
        actor.send("orders", {"id": "1"})


def test_another_body_under_a_used_idempotency_key_is_refused(shop: SimpleNamespace) -> None:
    """It would be lost without anybody knowing."""
    actor = shop.Checkout.create("main")
    actor.send("orders", {"id": "1"}, idempotency_key="k")

    with pytest.raises(rivet.IdempotencyConflictError, match="'k'"):
        actor.send("orders", {"id": "2"}, idempotency_key="k")


@pytest.mark.parametrize("delay", [-1, float("nan"), "soon", True])
def test_a_bad_delay_is_refused(shop: SimpleNamespace, delay: Any) -> None:
    """And says what a delay is."""
    with pytest.raises(rivet.InvalidInputError, match="delay"):
        shop.Checkout.create("main").send("orders", {"id": "1"}, delay=delay)


def test_actors_are_not_touched_from_workflow_code() -> None:
    """Workflow code runs again on each replay, and would do it again each time."""
    from django_rivet.testing import isolated_actors

    with isolated_actors():

        class Careless(rivet.Actor):
            class State:
                count: int = 0

            @rivet.workflow
            def run(self, ctx):
                Careless.get_or_create("other")

        actor = Careless.create("main")

        assert drive(actor) == "failed"
        assert (actor.error.name, Actor.objects.count()) == ("StepOnlyError", 1)
