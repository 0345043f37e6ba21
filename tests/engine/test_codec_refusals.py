"""What cannot be stored is refused where it is written, with the way out."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest

from django_rivet.engine.codec import MAX_DEPTH, copy, encode
from django_rivet.engine.exceptions import OutputNotSerializableError


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    HI = "hi"


class Safe(str):
    def __str__(self):
        return self


class Lazy:
    def _delegate_text(self): ...


class Zone(tzinfo):
    def utcoffset(self, moment):
        return timedelta(0)

    dst = tzname = utcoffset


@dataclass
class Point:
    x: int


class Moment(datetime):
    pass


Pair = namedtuple("Pair", "a b")


async def forgotten():
    pass


REFUSED = [
    (math.nan, "only finite numbers"),
    (-math.inf, "only finite numbers"),
    (Decimal("NaN"), "only finite numbers"),
    (Decimal("sNaN"), "only finite numbers"),
    (Decimal("-Infinity"), "only finite numbers"),
    (10**4300, "more than 4300 digits"),
    ("a\0", "a NUL character at index 1"),
    ("é\ud800", "a lone surrogate ('\\ud800') at index 1"),
    ({1: "one"}, "a key is of type int: keys must be plain strings"),
    ({10**5000: "many"}, "keys must be plain strings"),
    ({Safe("k"): 1}, "keys must be plain strings"),
    ({None: 1}, "keys must be plain strings"),
    ({"k\0": 1}, "the key holds a NUL character"),
    ({"\udfff": 1}, "the key holds a lone surrogate"),
    ({1, 2}, "use sorted(value)"),
    (frozenset(), "use sorted(value)"),
    (Colour.RED, "use .value"),
    (Level.LOW, "use .value"),
    (Word.HI, "use .value"),
    (Safe("x"), "use str.__str__(value)"),
    (Lazy(), "use str(value)"),
    (OrderedDict(a=1), "use dict(value)"),
    (defaultdict(list), "use dict(value)"),
    (Pair(1, 2), "._asdict()"),
    (bytearray(b"x"), "use bytes(value)"),
    (Moment(2026, 1, 1), "only datetime itself"),
    (datetime(2026, 1, 1, tzinfo=Zone()), ".astimezone(datetime.timezone.utc)"),
    (Point(1), "use dataclasses.asdict(value)"),
    (ValueError("x"), "use str(value)"),
    ((n for n in [1]), "use list(value)"),
    (1j, "use [value.real, value.imag]"),
    (object(), "store plain values"),
    (int, "store plain values"),
    (len, "store plain values"),
]


@pytest.mark.parametrize(
    ("value", "reason"),
    REFUSED,
    ids=lambda value: (
        type(value).__name__ if value.__class__ is not str else value[:30].encode("unicode_escape").decode()
    ),
)
def test_what_would_not_come_back_equal_is_refused_with_the_way_out(value, reason):
    """Refused where it is written, not found changed when it is read."""
    with pytest.raises(OutputNotSerializableError) as refused:
        encode({"items": [None, {"price": value}]})

    assert refused.value.path == "$.items[1].price"
    assert reason in str(refused.value)
    assert str(refused.value).startswith("$.items[1].price: ")
    str(refused.value).encode()


def test_a_forgotten_await_is_named():
    """The usual way to come by a coroutine."""
    coroutine = forgotten()
    with pytest.raises(OutputNotSerializableError, match="await it first"):
        encode(coroutine)
    coroutine.close()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "$"),
        ([[0, math.nan]], "$[0][1]"),
        ({"a b": {"": (math.nan,)}}, '$["a b"][""][0]'),
        ({"ok": 1, "bad": {2: 3}}, "$.bad"),
    ],
)
def test_the_path_leads_to_the_fault(value, path):
    """A value of a thousand fields with one NaN in it must not be searched by hand."""
    with pytest.raises(OutputNotSerializableError) as refused:
        encode(value)

    assert refused.value.path == path


def test_a_str_subclass_is_made_plain_by_the_way_out_that_the_error_names():
    """``str()`` of Django's SafeString is that SafeString again."""
    assert type(str(Safe("x"))) is Safe
    assert copy(str.__str__(Safe("x"))) == "x"


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


def test_containers_may_stand_in_each_other_only_so_deep():
    """The limit is a number, not how much of the Python stack happens to be left."""
    assert copy(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 50_000):
        with pytest.raises(OutputNotSerializableError, match="more than 100 containers"):
            encode(nested(depth))


def test_a_value_that_contains_itself_is_refused_where_the_circle_closes():
    """The path names the place that leads back, and what it leads back to."""
    order: dict[str, Any] = {"lines": []}
    order["lines"].append({"order": order["lines"]})

    with pytest.raises(OutputNotSerializableError) as refused:
        encode(order)

    assert refused.value.path == "$.lines[0].order"
    assert "contains itself (it is $.lines again)" in str(refused.value)


def test_one_object_in_two_places_is_no_circle():
    """Sharing is fine; the copies are separate."""
    shared = {"n": 1}

    assert copy([shared, shared]) == [{"n": 1}, {"n": 1}]


def test_a_full_stack_is_told_as_what_it_is():
    """A deep recursion of the caller's own never shows as a RecursionError in here."""

    def dive(outcomes: list[str]) -> None:
        try:
            encode(nested(MAX_DEPTH))
            outcomes.append("stored")
        except OutputNotSerializableError as error:
            outcomes.append(str(error))
        dive(outcomes)

    outcomes: list[str] = []
    limit = sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        dive(outcomes)

    assert outcomes[0] == "stored"
    assert any("stack is almost full" in outcome for outcome in outcomes)
    assert sys.getrecursionlimit() == limit
