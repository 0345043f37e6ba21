"""The arguments and the result of an action against its annotations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.actors.signature import Signature


class Line(BaseModel):
    sku: str
    count: int = 1


class Cart:
    def add(self, line: Line, times: int = 1, *, note: str | None = None) -> str:
        return f"{line.sku} {times} {note}"

    def tag(self, first, /, *names: str, **labels: int) -> None: ...

    def anything(self, value, other=None): ...

    async def later(self, key: UUID) -> list[int]:
        return []

    def broken(self, value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def below(self, value: Below) -> None: ...


class Below(BaseModel):
    n: int


def told(method: Any, args: Any, kwargs: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        Signature(method).bind(args, kwargs)
    return [(fault["path"], fault["message"]) for fault in caught.value.errors]


def test_arguments_become_the_declared_types_and_keep_the_form_of_the_call():
    """What came by keyword stays a keyword; defaults are left to Python."""
    bound = Signature(Cart.add).bind([{"sku": "a", "count": "2"}], {"note": "x"})

    assert tuple(bound) == ([Line(sku="a", count=2)], {"note": "x"})
    assert Cart().add(*bound.args, **bound.kwargs) == "a 1 x"


def test_parameters_without_an_annotation_take_anything():
    """Nobody is made to annotate."""
    thing = object()

    assert Signature(Cart.anything).bind([thing], {"other": thing}) == ([thing], {"other": thing})


def test_all_mismatches_are_told_at_once():
    """Missing, unexpected and unfitting arguments in one answer, and never a TypeError."""
    assert told(Cart.add, [], {"times": "often", "colour": "red"}) == [
        ("colour", "Unexpected argument"),
        ("line", "Missing argument"),
        ("times", "Input should be a valid integer, unable to parse string as an integer"),
    ]


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "fault"),
    [
        (Cart.later, [], {}, ("key", "Missing argument")),
        (Cart.add, [Line(sku="a"), 1, "x"], {}, ("args[2]", "Unexpected argument")),
        (Cart.add, [Line(sku="a")], {"line": 1}, ("line", "Given twice, by its place and by its name")),
        (Cart.add, [{"sku": 1}], {}, ("line.sku", "Input should be a valid string")),
        (Cart.tag, [1, "a", 2], {}, ("names[1]", "Input should be a valid string")),
        (Cart.tag, [1], {"x": "y"}, ("x", "Input should be a valid integer, unable to parse string as an integer")),
        (Cart.anything, [1], {"a b": 1}, ('kwargs["a b"]', "Unexpected argument")),
    ],
)
def test_each_fault_bears_the_name_of_the_argument(method, args, kwargs, fault):
    """The path leads into the argument."""
    assert told(method, args, kwargs) == [fault]


@pytest.mark.parametrize(
    ("args", "kwargs", "fault"),
    [
        ("ab", {}, ("args", "must be a list")),
        (None, {}, ("args", "must be a list")),
        ([], [1], ("kwargs", "must be an object with names as keys")),
        ([], {1: 2}, ("kwargs", "must be an object with names as keys")),
    ],
)
def test_what_is_no_list_of_arguments_at_all_is_told_too(args, kwargs, fault):
    """A client may send any JSON."""
    assert told(Cart.anything, args, kwargs) == [fault]


@pytest.mark.parametrize("method", [Cart.tag, Cart.anything])
def test_a_keyword_cannot_take_the_place_of_the_actor(method):
    """``{"kwargs": {"self": ...}}`` of a client reaches no method."""
    assert told(method, [1], {"self": 2}) == [("self", "Unexpected argument")]


def test_a_parameter_by_place_only_leaves_its_name_to_the_keywords():
    """As Python has it."""
    assert Signature(Cart.tag).bind([1], {"first": 2}) == ([1], {"first": 2})


def test_stored_arguments_are_plain_and_bind_again():
    """For a schedule, which calls the action later."""
    signature = Signature(Cart.add)
    stored = signature.storable([Line(sku="a")], {"note": None})

    assert stored == ([{"sku": "a", "count": 1}], {"note": None})
    assert signature.bind(*stored) == ([Line(sku="a")], {"note": None})
    with pytest.raises(InvalidInputError, match="value: a value of type object cannot be stored"):
        Signature(Cart.anything).storable([object()])


def test_the_result_is_validated_too():
    """An action that returns something else than it says is found here, not by its callers."""
    assert Signature(Cart.add).validate_result("x") == "x"
    assert Signature(Cart.later).validate_result(["1"]) == [1]
    assert Signature(Cart.anything).validate_result(Cart) is Cart
    with pytest.raises(InvalidInputError, match="result: Input should be a valid string"):
        Signature(Cart.add).validate_result(None)
    with pytest.raises(InvalidInputError, match="result: Input should be None"):
        Signature(Cart.tag).validate_result(1)


def test_an_annotation_may_name_what_is_defined_further_down():
    """It is resolved when it is first needed."""
    assert Signature(Cart.below).bind([{"n": 1}]) == ([Below(n=1)], {})


def test_an_annotation_may_name_what_is_local_to_a_function():
    """Actors of a test are written next to their models."""

    class Local(BaseModel):
        n: int

    def act(self, value: Local) -> None: ...

    assert Signature(act, {"Local": Local}).bind([{"n": 1}]) == ([Local(n=1)], {})


def test_an_annotation_that_names_nothing_says_where_and_what_to_do():
    """Usually an import that stands under TYPE_CHECKING."""
    with pytest.raises(ImproperlyConfigured, match=r"Cart\.broken .*'Nowhere'.*not under TYPE_CHECKING"):
        Signature(Cart.broken).verify()
    Signature(Cart.add).verify()


def test_arguments_are_described_as_one_object():
    """What a client may send, by name."""
    assert Signature(Cart.add).arguments_schema("#/x/{model}") == {
        "type": "object",
        "properties": {
            "line": {"$ref": "#/x/Line"},
            "times": {"type": "integer"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["line"],
        "additionalProperties": False,
        "$defs": {
            "Line": {
                "type": "object",
                "title": "Line",
                "properties": {
                    "sku": {"type": "string", "title": "Sku"},
                    "count": {"type": "integer", "title": "Count", "default": 1},
                },
                "required": ["sku"],
            }
        },
    }
    assert Signature(Cart.tag).arguments_schema()["additionalProperties"] == {"type": "integer"}
    assert Signature(Cart.later).result_schema() == {"type": "array", "items": {"type": "integer"}}
