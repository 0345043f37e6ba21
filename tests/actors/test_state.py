"""The state of an actor, from its declaration to text and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, Field

from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import InvalidInputError


class Line(BaseModel):
    sku: str
    price: Decimal = Decimal(0)


class Cart(BaseModel):
    lines: list[Line] = []
    owner: str = Field("nobody", alias="Owner")


@dataclass
class Box:
    size: int = 1
    lines: list[Line] = field(default_factory=list)

    @cached_property
    def doubled(self) -> int:
        return self.size * 2


class Inventory(Actor):
    class Meta:
        abstract = True

    class State:
        reserved: list[str] = []
        by_sku: dict[str, Line] = {}
        last_error: dict[str, Any] | None = None

        def count(self) -> int:
            return len(self.reserved)


def fresh(cls: type[Actor[Any]], input: Any = None) -> Any:
    return cls.definition.state_type.initial(cls, input)


def stored(cls: type[Actor[Any]], state: Any) -> Any:
    """The state that the next turn sees."""
    state_type = cls.definition.state_type
    return state_type.load(state_type.dump(state))


def refusal(cls: type[Actor[Any]], state: Any) -> list[str]:
    with pytest.raises(InvalidInputError) as refused:
        cls.definition.state_type.dump(state)
    return [fault["path"] for fault in refused.value.errors]


def test_a_plain_class_with_annotations_is_a_state():
    """With its defaults and its methods; ``Cls.State`` makes one."""
    state = fresh(Inventory)

    assert (state.reserved, state.by_sku, state.last_error, state.count()) == ([], {}, None, 0)
    assert Inventory.definition.state_type.dump(state) == '{"reserved":[],"by_sku":{},"last_error":null}'
    assert Inventory.State(reserved=["a"]).count() == 1  # type: ignore[call-arg]
    assert repr(state) == "State(reserved=[], by_sku={}, last_error=None)"
    assert type(state).__qualname__ == "Inventory.State"


def test_each_actor_has_defaults_of_its_own():
    """A list in the class is copied."""
    fresh(Inventory).reserved.append("a")

    assert fresh(Inventory).reserved == []


def test_changes_deep_inside_are_found_and_kept():
    """The text holds what is there when the turn ends, however it came there."""
    state = fresh(Inventory)
    state.reserved.append("a")
    state.by_sku["x"] = Line(sku="x")
    state.by_sku["x"].price = Decimal("1.10")
    state.last_error = {"name": "Oops"}

    again = stored(Inventory, state)

    assert again == state
    assert again.by_sku["x"].price == Decimal("1.10")


def test_what_does_not_fit_is_refused_with_its_path():
    """Nothing half-right is saved: the turn fails as a whole."""
    state = fresh(Inventory)
    state.reserved.append(object())
    state.by_sku["x"] = Line.model_construct(sku=None)  # type: ignore[arg-type]
    state.last_error = {"price": float("nan")}

    assert refusal(Inventory, state) == ["state.reserved[0]", "state.by_sku.x.sku"]
    state.reserved, state.by_sku = [], {}
    assert refusal(Inventory, state) == ["state.last_error.price"]


def test_an_attribute_that_is_not_declared_is_refused():
    """It would be gone after the turn."""
    with pytest.raises(ValueError, match='"State" object has no field "resreved"'):
        fresh(Inventory).resreved = []
    with pytest.raises(InvalidInputError, match=r"state\.resreved: is not declared; it would be lost"):
        Inventory.definition.state_type.accept({"resreved": []})


def test_an_attribute_may_bear_any_name():
    """Also that of a method of pydantic's."""

    class Odd(Actor):
        class State:
            json: str = "a"
            copy: int = 1
            model_name: str = "b"

    assert stored(Odd, fresh(Odd)) == fresh(Odd)


def test_a_state_can_build_on_another():
    """The parent's State is there under its name."""

    class Child(Inventory):
        class State(Inventory.State):
            more: int = 1

    class Heir(Inventory): ...

    assert (fresh(Child).reserved, fresh(Child).more) == ([], 1)
    assert Heir.definition.state_type is Inventory.definition.state_type


def test_the_type_may_be_named_in_brackets():
    """The form that type checkers follow: a model, a dataclass, a dict type."""

    class WithModel(Actor[Cart]): ...

    class WithDataclass(Actor[Box]): ...

    class WithDict(Actor[dict[str, int]]): ...

    class Heir(WithModel): ...

    assert fresh(WithModel) == fresh(Heir) == Cart()
    assert stored(WithDataclass, Box(2, [Line(sku="a")])) == Box(2, [Line(sku="a")])
    assert fresh(WithDict) == {}
    assert refusal(WithDict, {"a": "many"}) == ["state.a"]


def test_state_may_be_a_dict_to_begin_with():
    """It is copied, and anything storable may be put in."""

    class Simple(Actor):
        state = {"seen": []}

    class Heir(Simple): ...

    state = fresh(Simple)
    state["seen"].append(1)
    state["new"] = {"deep": [2]}

    assert stored(Simple, state) == {"seen": [1], "new": {"deep": [2]}}
    assert fresh(Simple) == fresh(Heir) == {"seen": []}
    assert refusal(Simple, {"seen": [{1}]}) == ["state.seen[0]"]


def test_without_a_declaration_the_state_is_empty():
    """There is nothing to set on it."""

    class Quiet(Actor): ...

    assert Quiet.definition.state_type.dump(fresh(Quiet)) == "{}"
    with pytest.raises(ValueError, match="no field"):
        fresh(Quiet).count = 1


def test_create_state_makes_it_of_the_input():
    """On an actor that has its key; a dict becomes the declared state."""

    class Made(Inventory):
        class Meta:
            abstract = True

        def create_state(self, input):
            return {"reserved": [input, self.key]}

    assert Made.definition.state_type.initial(Made, "a", key="main").reserved == ["a", "main"]
    with pytest.raises(InvalidInputError, match=r"state\.reserved\[0\]: Input should be a valid string"):
        fresh(Made, 5)


def test_create_state_has_to_return_it():
    """A forgotten return is named."""

    class Forgot(Actor):
        class State:
            count: int

        def create_state(self, input): ...

    with pytest.raises(InvalidInputError, match=r"Forgot\.create_state returned None"):
        fresh(Forgot)


def test_an_old_state_loads_into_a_changed_class():
    """What is not declared any more is left out, a new attribute takes its default."""
    load = Inventory.definition.state_type.load

    assert load('{"reserved":["a"],"gone":1}') == Inventory.State(reserved=["a"])  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match=r"state\.reserved: Input should be a valid list"):
        load('{"reserved":5}')


def test_stored_names_are_those_of_fields():
    """An alias may change without a migration."""

    class Mine(Actor[Cart]): ...

    assert Mine.definition.state_type.dump(Cart(Owner="me")) == '{"lines":[],"owner":"me"}'
    assert stored(Mine, Cart(Owner="me")).owner == "me"


def test_what_was_set_beside_the_fields_of_a_dataclass_is_refused():
    """A cached property is no such thing."""

    class Mine(Actor[Box]): ...

    box = Box()
    assert box.doubled == 2
    assert stored(Mine, box) == box
    box.colour = "red"  # type: ignore[attr-defined]
    assert refusal(Mine, box) == ["state.colour"]


def test_a_dataclass_with_an_unfit_default_is_a_mistake_of_the_class():
    """Found when the class is made, not when the first actor is."""

    @dataclass
    class Bad:
        size: int = "big"  # type: ignore[assignment]

    with pytest.raises(ImproperlyConfigured, match=r"State\.size: Input should be a valid integer"):
        type("Mine", (Actor,), {"State": Bad})


def test_a_state_may_name_what_stands_around_the_class():
    """Annotations as strings, in a test say."""

    class Local(BaseModel):
        n: int = 1

    class Mine(Actor):
        class State:
            local: Local = Local()

    assert stored(Mine, fresh(Mine)).local == Local()


def test_a_copy_is_free_of_the_original():
    """For who wants to look at it later."""
    state = fresh(Inventory)
    copied = Inventory.definition.state_type.copy(state)
    copied.reserved.append("a")

    assert state.reserved == []


def test_a_state_is_declared_once():
    """Two places that name different classes are a mistake."""
    with pytest.raises(ImproperlyConfigured, match="name two classes: declare the state once"):

        class Two(Actor[Cart]):
            State = Box

    with pytest.raises(ImproperlyConfigured, match="and a class of states: declare the state once"):

        class Both(Actor):
            State = Box
            state = {}
