"""Values against their declared types."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypedDict

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.actors.validation import ValueType
from django_rivet.engine import codec


class Colour(Enum):
    RED = "red"


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    id: str
    lines: list[Line] = []
    paid_at: datetime | None = None
    customer_name: str = Field("nobody", alias="customerName")


@dataclass
class Box:
    size: Decimal
    labels: set[str] = field(default_factory=set)


class Address(TypedDict):
    city: str


class Unknown:
    """No type that pydantic knows."""


def faults(caught: pytest.ExceptionInfo[InvalidInputError]) -> list[tuple[str, str]]:
    return [(fault["path"], fault["message"]) for fault in caught.value.errors]


def kept(annotation: Any, value: Any) -> Any:
    """A value as it is after it was validated, stored, and loaded."""
    kind = ValueType(annotation)
    stored = codec.copy(kind.storable(kind.validate(value, "body"), "body"))
    return kind.load(stored)


def test_what_fits_becomes_the_declared_type():
    """Strings of JSON become what the declaration says, as pydantic's defaults have it."""
    order = ValueType(Order).validate({"id": "o-1", "lines": [{"sku": "a", "count": "2"}]}, "body")

    assert order == Order(id="o-1", lines=[Line(sku="a", count=2)])
    assert ValueType(int).validate("7", "body") == 7
    assert ValueType(UUID).validate(str(UUID(int=1)), "body") == UUID(int=1)


def test_every_fault_is_listed_with_its_path():
    """A client mends a form in one round, not one field at a time."""
    with pytest.raises(InvalidInputError) as caught:
        ValueType(Order).validate({"lines": [{"sku": "a"}, {"sku": "b", "count": "many"}]}, "body")

    assert faults(caught) == [
        ("body.id", "Field required"),
        ("body.lines[1].count", "Input should be a valid integer, unable to parse string as an integer"),
    ]
    assert str(caught.value).startswith("body.id: Field required; body.lines[1].count: Input should")


def test_a_long_list_of_faults_is_cut_in_the_message_only():
    """The text stays readable; the list is complete."""
    with pytest.raises(InvalidInputError) as caught:
        ValueType(list[int]).validate(["x"] * 9, "body")

    assert len(caught.value.errors) == 9
    assert str(caught.value).endswith("and 4 more")


def test_the_path_names_the_value_not_the_members_of_a_union():
    """``int | str`` was tried twice at one place."""
    with pytest.raises(InvalidInputError) as caught:
        ValueType(dict[str, list[int | Literal["all"]]]).validate({"a b": [1, None]}, "body")

    assert {path for path, _ in faults(caught)} == {'body["a b"][1]'}


def test_anything_is_any():
    """Without a declared type nothing is asked."""
    thing = object()

    assert ValueType().validate(thing, "body") is thing


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, Order(id="1", lines=[Line(sku="a")], paid_at=datetime(2026, 1, 1, tzinfo=UTC), customerName="Žofie")),
        (Box, Box(Decimal("1.10"), {"b", "a"})),
        (Address, {"city": "Praha"}),
        (tuple[int, str], (1, "a")),
        (frozenset[UUID], frozenset([UUID(int=2), UUID(int=1)])),
        (Colour, Colour.RED),
        (dict[Colour, list[Path]], {Colour.RED: [Path("/a")]}),
        (dict[int, str], {1: "one"}),
        (dict[UUID, int], {UUID(int=1): 1}),
        (list[Order | Box], [Box(Decimal(1)), Order(id="1")]),
        (bytes, b"\xff"),
        (Annotated[int, Field(gt=0)], 1),
        (dict, {"a": [1, 2.5, None, Decimal(1)]}),
        (dict[str, Any], {"a": 1}),
        (None, None),
        (Any, {"$uuid": 1}),
    ],
)
def test_what_is_stored_loads_as_the_declared_type(annotation, value):
    """The code that takes a message sees what the sender was asked for."""
    assert kept(annotation, value) == value
    assert type(kept(annotation, value)) is type(value)


def test_stored_values_bear_the_names_of_fields():
    """An alias is for those outside and may change; what is stored may not."""
    order = ValueType(Order).validate({"id": "1", "customerName": "Žofie"}, "body")

    assert ValueType(Order).storable(order, "body")["customer_name"] == "Žofie"


def test_a_set_is_stored_in_one_order():
    """Else an unchanged state would have another text in another process."""
    assert ValueType(set[str]).storable({"c", "a", "b"}, "body") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("annotation", "value", "path", "reason"),
    [
        (dict, {"price": math.nan}, "body.price", "only finite numbers"),
        (Any, ["a\0"], "body[0]", "a NUL character"),
        (Any, "\ud800", "body", "a lone surrogate"),
        (float, math.inf, "body", "only finite numbers"),
        (list[float], [1.0, math.nan], "body[1]", "only finite numbers"),
        (Any, {1: 2}, "body", "keys must be plain strings"),
        (dict, {"c": Colour.RED}, "body.c", "use .value"),
        (list, [Line(sku="a")], "body[0]", "use .model_dump()"),
        (Unknown, Unknown(), "body", "store plain values"),
        (SecretStr, SecretStr("x"), "body", "would be stored in the clear"),
        (dict[int | str, int], {1: 1, "1": 2}, "body", "two keys"),
    ],
)
def test_what_cannot_be_stored_is_invalid_input_with_its_path(annotation, value, path, reason):
    """Found when the message is sent, by the one who sent it."""
    kind = ValueType(annotation)
    with pytest.raises(InvalidInputError) as caught:
        kind.storable(kind.validate(value, "body"), "body")

    [(found, message)] = faults(caught)
    assert found == path
    assert reason in message
    str(caught.value).encode()


def test_a_value_that_contains_itself_is_refused():
    """Whatever is declared, it is no endless loop."""
    circle: list[Any] = []
    circle.append(circle)
    for kind in (ValueType(), ValueType(list), ValueType(infer=True)):
        with pytest.raises(InvalidInputError, match="contains itself"):
            kind.storable(circle, "body")


def test_text_is_the_codec_text_of_the_storable_value():
    """One pass instead of two for those who only want the text."""
    kind = ValueType(Order)
    order = Order(id="1")

    assert kind.text(order, "body") == codec.encode(kind.storable(order, "body"))


def test_results_may_be_models_without_a_declaration():
    """``return self.state`` needs no annotation: it is shown, not read back."""
    kind = ValueType(infer=True)

    assert kind.storable({"line": Line(sku="a"), "colour": Colour.RED}, "result") == {
        "line": {"sku": "a", "count": 1},
        "colour": "red",
    }


def test_an_old_value_that_no_longer_fits_says_where():
    """A deploy changed the declaration; the row did not change with it."""
    with pytest.raises(InvalidInputError) as caught:
        ValueType(Order).load({"id": None}, "state")

    assert faults(caught) == [("state.id", "Input should be a valid string")]


def test_an_annotation_that_is_no_type_is_a_mistake_in_the_code():
    """It is not the caller's fault, so it is not an InvalidInputError."""
    with pytest.raises(ImproperlyConfigured, match="values cannot be validated by"):
        ValueType(list["Nowhere"]).validate([], "body")  # type: ignore[name-defined]  # noqa: F821


def test_types_have_a_json_schema():
    """What a client may send, with the names that it uses; what it gets, with the names of fields."""
    sent = ValueType(Order).json_schema()
    shown = ValueType(Order).json_schema("serialization", "#/components/schemas/{model}")

    assert sent["required"] == ["id"]
    assert "customerName" in sent["properties"]
    assert "customer_name" in shown["properties"]
    assert shown["properties"]["lines"]["items"] == {"$ref": "#/components/schemas/Line"}


def test_a_type_that_json_does_not_know_is_described_as_anything():
    """One odd action must not take the description of the whole API with it."""
    assert ValueType(list[Unknown]).json_schema() == {"type": "array", "items": {}}
