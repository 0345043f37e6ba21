"""The class that users subclass, as they use it."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from typing import Any, assert_type

import pytest
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel

from django_rivet.actors import directory
from django_rivet.actors.actor import Actor
from django_rivet.actors.declarations import Event, action, workflow
from django_rivet.actors.exceptions import InvalidInputError, InvalidKeyError
from django_rivet.actors.turn import turn_of, turn_open
from django_rivet.engine.exceptions import StepOnlyError


class Stock(BaseModel):
    reserved: list[str] = []


class Inventory(Actor[Stock]):
    class Meta:
        app_label = "shop"
        name = "shop.Inventory"

    changed = Event(dict)

    @workflow
    def run(self, ctx: Any) -> str:
        return "done"

    @action
    def reserve(self, order_id: str) -> str:
        self.state.reserved.append(order_id)
        self.changed.broadcast({"order": order_id})
        return f"reserve-{order_id}"


class Lent:
    """A turn that only notes what happens."""

    def __init__(self, actor_id: str, state: Any = None) -> None:
        self.actor_id = actor_id
        self.state = state
        self.sent: list[tuple[str, Any]] = []

    def get_state(self) -> Any:
        return self.state

    def set_state(self, value: Any) -> None:
        self.state = value

    def broadcast(self, event_name: str, payload: Any) -> None:
        self.sent.append((event_name, payload))


class Listed:
    """A directory that gives back what it was asked for."""

    def create(self, actor_class: type[Any], key: str, input: Any) -> Any:
        return "create", actor_class, key, input

    def get(self, actor_class: type[Any], key: str) -> Any:
        return "get", actor_class, key

    def get_or_create(self, actor_class: type[Any], key: str, input: Any) -> Any:
        return "get_or_create", actor_class, key, input

    async def acreate(self, actor_class: type[Any], key: str, input: Any) -> Any:
        return "acreate", actor_class, key, input

    async def aget(self, actor_class: type[Any], key: str) -> Any:
        return "aget", actor_class, key

    async def aget_or_create(self, actor_class: type[Any], key: str, input: Any) -> Any:
        return "aget_or_create", actor_class, key, input


@pytest.fixture
def no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_directory", None)


@pytest.mark.usefixtures("no_directory")
def test_actors_are_found_through_the_directory():
    """With the canonical text of the key."""
    directory.install_directory(Listed())

    assert Inventory.create("main", {"size": 1}) == ("create", Inventory, "main", {"size": 1})
    assert Inventory.get(("a", "b")) == ("get", Inventory, "a/b")
    assert Inventory.get_or_create("main") == ("get_or_create", Inventory, "main", None)

    async def later() -> list[Any]:
        return [await Inventory.acreate("k", 1), await Inventory.aget("k"), await Inventory.aget_or_create("k")]

    assert asyncio.run(later()) == [
        ("acreate", Inventory, "k", 1),
        ("aget", Inventory, "k"),
        ("aget_or_create", Inventory, "k", None),
    ]
    with pytest.raises(InvalidKeyError):
        Inventory.get("a/b")


@pytest.mark.usefixtures("no_directory")
def test_without_a_directory_the_error_says_what_is_missing():
    """Usually a script without django.setup(), or a call at import."""
    with pytest.raises(ImproperlyConfigured, match=r"INSTALLED_APPS, call django\.setup\(\)"):
        Inventory.get("main")


def test_an_abstract_class_has_no_actors():
    """Nor has Actor itself."""

    class Base(Actor):
        class Meta:
            abstract = True

    for cls in (Base, Actor):
        with pytest.raises(ImproperlyConfigured, match="is abstract"):
            cls.get("main")


def test_an_actor_knows_its_id_and_key():
    """The key as canonical text, and in parts."""
    actor = Inventory("1", "tenant-1/order-9")

    assert (actor.id, actor.key, actor.key_parts) == ("1", "tenant-1/order-9", ("tenant-1", "order-9"))
    assert repr(actor) == "<shop.Inventory tenant-1/order-9>"


def test_inside_its_turn_an_actor_has_its_state():
    """Read, changed in place, and assigned; events go out through the turn as well."""
    actor, turn = Inventory("1", "main"), Lent("1", Stock())
    with turn_open(turn):
        assert actor.reserve("7") == "reserve-7"
        assert actor.state is turn.state
        assert turn.state == Stock(reserved=["7"])
        actor.state = {"reserved": ["8"]}  # type: ignore[assignment]
        assert turn.state == Stock(reserved=["8"])
        actor.broadcast("changed", {"all": True})
    assert turn.sent == [("changed", {"order": "7"}), ("changed", {"all": True})]


def test_an_assigned_state_must_fit():
    """At the assignment, where the mistake is."""
    turn = Lent("1", Stock())
    with turn_open(turn), pytest.raises(InvalidInputError, match=r"state\.reserved"):
        Inventory("1", "main").state = {"reserved": 5}  # type: ignore[assignment]
    assert turn.state == Stock()


@pytest.mark.parametrize(
    "use",
    [
        lambda actor: actor.state,
        lambda actor: setattr(actor, "state", Stock()),
        lambda actor: actor.broadcast("changed", {}),
        lambda actor: actor.changed.broadcast({}),
    ],
)
def test_outside_its_turn_an_actor_has_no_state(use):
    """Another actor's turn is not enough."""
    with (
        turn_open(Lent("2")),
        pytest.raises(StepOnlyError, match="belongs in a step, an action, a hook or a handler"),
    ):
        use(Inventory("1", "main"))


def test_turns_of_several_actors_are_open_at_once():
    """A step calls another actor's action; each finds its own turn, the innermost of its own."""
    outer, other, inner = Lent("1"), Lent("2"), Lent("1")
    with turn_open(outer), turn_open(other):
        assert (turn_of("1"), turn_of("2")) == (outer, other)
        with turn_open(inner):
            assert turn_of("1") is inner
        assert turn_of("1") is outer
    assert turn_of("1") is None


def test_a_turn_ends_with_its_block_also_on_an_error():
    """The next step must not find the state of the last one."""
    with pytest.raises(LookupError), turn_open(Lent("1")):
        raise LookupError
    assert turn_of("1") is None


def test_a_turn_belongs_to_the_thread_that_opened_it():
    """Another thread gets it only with the context, which is how bodies are run in threads."""
    found: list[Any] = []

    def look() -> None:
        found.append(turn_of("1"))

    turn = Lent("1")
    with turn_open(turn):
        for thread in (threading.Thread(target=look), threading.Thread(target=copy_context().run, args=(look,))):
            thread.start()
            thread.join()
    assert found == [None, turn]


def test_type_checkers_follow_the_declarations():
    """mypy reads this test; running it only shows that it is no nonsense."""
    actor = Inventory("1", "main")
    with turn_open(Lent("1", Stock())):
        assert_type(actor.state, Stock)
        assert_type(actor.reserve("7"), str)
    assert_type(actor.run(None), str)
    assert_type(Inventory.changed, Event)
