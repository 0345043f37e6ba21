"""Values as JSON text and back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_rivet.engine.codec import copy, decode, encode

ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu"]


def exactly(value: Any) -> Any:
    """``value`` in a form in which only values equal in type and content are equal."""
    if type(value) is dict:
        return [(key, exactly(item)) for key, item in value.items()]
    if type(value) is list:
        return ["list", *(exactly(item) for item in value)]
    if type(value) is float:
        return (float, value.hex())
    if type(value) is Decimal:
        return (Decimal, value.as_tuple())
    if type(value) in (datetime, time):
        zone = value.tzinfo
        return (
            type(value),
            value.replace(tzinfo=None).isoformat(),
            value.fold,
            type(zone),
            getattr(zone, "key", None),
            zone and (zone.utcoffset(value if type(value) is datetime else None)),
            zone and (zone.tzname(value if type(value) is datetime else None)),
        )
    return (type(value), value)


def labelled(value: Any) -> str:
    """A test's name; a very long int has no ``repr``."""
    return f"{type(value).__name__}-{str(value)[:30] if type(value) is not int else value % 1000!a}"


def names() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def zones() -> st.SearchStrategy[tzinfo | None]:
    offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23))
    return st.one_of(
        st.none(),
        st.just(UTC),
        offsets.map(timezone),
        st.builds(timezone, offsets, names()),
        st.sampled_from(ZONES).map(ZoneInfo),
    )


def storable() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        names(),
        st.binary(),
        st.uuids(),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.dates(),
        st.timedeltas(),
        st.builds(
            lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
            st.datetimes(),
            zones(),
            st.integers(0, 1),
        ),
        st.builds(
            lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
            st.times(),
            zones(),
            st.integers(0, 1),
        ),
    )
    tag_like = st.sampled_from(["$", "$$", "$uuid", "$$uuid", "$datetime", "$none", "at"])
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner) | st.dictionaries(names() | tag_like, inner, max_size=3),
    )


@settings(deadline=None)
@given(storable())
def test_every_storable_value_comes_back_equal_in_type_and_content(value):
    """What is read back is what was written, and its text can be stored as UTF-8."""
    text = encode(value)

    assert exactly(decode(text)) == exactly(value)
    assert b"\0" not in text.encode()
    assert encode(decode(text)) == text


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        1e22,
        5e-324,
        10**400,
        -(2**63),
        10**4300 - 1,
        "",
        "\x01\x7f\u2028\U0001f6f6",
        Decimal("-0"),
        Decimal("1.10"),
        Decimal("1E+999999"),
        Decimal("1" * 5000),
        timedelta.min,
        timedelta.max,
        datetime.fromisoformat("0001-01-01"),
        datetime.max.replace(tzinfo=UTC),
        datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(2025, 3, 30, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
        time(12, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        time(12, 30, tzinfo=timezone(timedelta(seconds=-1))),
        time(12, 30, tzinfo=timezone(timedelta(microseconds=1))),
        datetime(2025, 1, 1, tzinfo=timezone(timedelta(microseconds=-1), "odd")),
        b"\0\xff",
        {"$uuid": "no uuid at all"},
        {"$uuid": {"$uuid": UUID(int=1)}},
        {"$$bytes": b"x"},
        {"$": None},
        {"$a": 1, "$b": 2},
        [],
        {},
        {"": {}},
    ],
    ids=labelled,
)
def test_the_odd_ones_come_back_as_they_were(value):
    """The values at which other serializers change something."""
    assert exactly(copy(value)) == exactly(value)
    assert exactly(copy({"in": [value]})) == exactly({"in": [value]})


def test_the_text_is_compact_and_keeps_the_order_of_keys():
    """People read it in the admin; equal values built alike have equal texts."""
    value = {"z": [1, 2.0, None, True], "a": {"name": "žluť"}, "id": UUID(int=1)}

    assert encode(value) == (
        '{"z":[1,2.0,null,true],"a":{"name":"žluť"},"id":{"$uuid":"00000000-0000-0000-0000-000000000001"}}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (date(2026, 2, 1), '{"$date":"2026-02-01"}'),
        (time(1, 2), '{"$time":"01:02:00"}'),
        (timedelta(1, 2, 3), '{"$timedelta":[1,2,3]}'),
        (Decimal("1.10"), '{"$decimal":"1.10"}'),
        (b"hi", '{"$bytes":"aGk="}'),
        (datetime(2026, 2, 1, tzinfo=UTC), '{"$datetime":"2026-02-01T00:00:00+00:00"}'),
        (
            datetime(2026, 2, 1, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            '{"$datetime":{"at":"2026-02-01T00:00:00","fold":1,"zone":"Europe/Berlin"}}',
        ),
        (
            datetime(2026, 2, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
            '{"$datetime":{"at":"2026-02-01T00:00:00+01:00","name":"CET"}}',
        ),
        ({"$date": 1}, '{"$$date":1}'),
    ],
    ids=str,
)
def test_stored_texts_never_change_their_meaning(value, text):
    """Histories written by this version are read by every later one."""
    assert encode(value) == text
    assert exactly(decode(text)) == exactly(value)


def test_a_tuple_comes_back_as_a_list():
    """JSON has one kind of sequence; the first run sees the list as well."""
    assert copy({"pair": (1, (2,))}) == {"pair": [1, [2]]}


def test_a_copy_shares_nothing_with_the_value():
    """Changing what a step returned cannot change what is recorded."""
    value = {"items": [{"n": 1}]}

    copied = copy(value)
    copied["items"][0]["n"] = 2

    assert value == {"items": [{"n": 1}]}


@pytest.mark.parametrize("text", ['{"$new":1}', "NaN", "[Infinity]", "", "{", '{"$uuid":"x"}'])
def test_a_text_that_was_never_written_here_is_no_value(text):
    """A newer version's tag or a damaged row is an error, never a guess."""
    with pytest.raises(ValueError, match=r".+"):
        decode(text)


@settings(deadline=None)
@given(st.from_type(type(None)) | st.integers() | names() | st.lists(st.integers()))
def test_plain_values_are_written_as_any_json_library_would(value):
    """A browser or another language can read them."""
    assert json.loads(encode(value)) == value
