"""Values in JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from django_rivet.actors.json_values import jsonable, stored_value
from django_rivet.engine import codec

STORABLE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        st.binary(),
        st.uuids(),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.datetimes(timezones=st.just(UTC)),
        st.dates(),
        st.times(),
        st.timedeltas(),
    ),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inside, max_size=3
        )
    ),
    max_leaves=8,
)


@given(STORABLE)
def test_whatever_is_stored_can_be_shown(value: Any) -> None:
    """In JSON that every reader takes, and that is JSON's own types already."""
    shown = stored_value(codec.encode(value))

    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2026, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T03:04:00+02:00"),
        (time(3, 4, tzinfo=UTC), "03:04:00+00:00"),
        (timedelta(seconds=-1.5), "-P0DT00H00M01.500000S"),
        (Decimal("1.10"), "1.10"),
        (b"\xff", "/w=="),
        ({UUID(int=1): 1, 2: 3, True: 4, None: 5}, {str(UUID(int=1)): 1, "2": 3, "true": 4, "null": 5}),
        ({2, 10}, [10, 2]),
        (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (PurePosixPath("/a/b"), "/a/b"),
        (SecretStr("hunter2"), "**********"),
        (lazystr("later"), "later"),
        (mark_safe("<b>"), "<b>"),
    ],
)
def test_each_type_has_one_form(value: Any, shown: Any) -> None:
    """The same in states, outputs and errors."""
    assert jsonable(value) == shown


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        {"a": [float("-inf")]},
        "\ud800",
        {"\udfff": 1},
        10**5000,
        {1: "a", "1": "b"},
        {(1, 2): 3},
        object(),
        {"a": lambda: None},
    ],
    ids=range(9),
)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    """Before it is written: a reader could not take half of an answer."""
    with pytest.raises((TypeError, ValueError)):
        jsonable(value)


@pytest.mark.parametrize("text", ["no JSON", '{"$from-the-future": 1}', "NaN"])
def test_a_damaged_record_is_shown_as_it_is(text: str) -> None:
    """An operator can read it."""
    assert stored_value(text) == text
