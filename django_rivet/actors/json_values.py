"""Values as JSON: what a client gets to see of a state, an output, a result."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

from django.utils.duration import duration_iso_string
from django.utils.functional import Promise
from pydantic_core import to_jsonable_python

from django_rivet.actors.validation import ValueType
from django_rivet.engine import codec


def stored_value(text: str | None) -> Any:
    """What a text of the codec holds. Reading never fails: a damaged or newer one is shown as it is."""
    if text is None:
        return None
    try:
        return jsonable(codec.decode(text))
    except (TypeError, ValueError):
        return text


def result_value(kind: ValueType, value: Any) -> Any:
    """A validated result in the form that the type's JSON Schema promises."""
    return jsonable(kind.adapter.dump_python(value, by_alias=False, warnings=False))


def jsonable(value: Any) -> Any:
    """``value`` in JSON's own types.

    Points in time become ISO 8601, Decimal and UUID strings, bytes base64, sets lists. ``ValueError`` or ``TypeError``
    for what JSON cannot say: NaN, lone surrogates, other objects.
    """
    if value is None or isinstance(value, bool):
        return value
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    # Addresses, secrets (masked): what pydantic knows and we do not.
    return jsonable(to_jsonable_python(value, bytes_mode="base64"))


# Below: how it is done ---------------------------------------------------------------------------


def _text(value: str) -> str:
    if not value.isascii():
        value.encode()  # UnicodeEncodeError, a ValueError, where it holds half of a character
    return str(value)


def _int(value: int) -> int:
    if abs(value) >= 10**codec.MAX_INT_DIGITS:
        raise ValueError(f"an int of more than {codec.MAX_INT_DIGITS} digits has no place in JSON")
    return int(value)


def _float(value: float) -> float:
    if not isfinite(value):
        raise ValueError(f"{value!r} is no JSON")
    return float(value)


def _object(value: Mapping[Any, Any]) -> dict[str, Any]:
    found = {_name(key): jsonable(item) for key, item in value.items()}
    if len(found) < len(value):
        raise ValueError("two keys of a dict have the same name in JSON")
    return found


def _name(key: Any) -> str:
    name = jsonable(key)
    if isinstance(name, str):
        return name
    if name is None or isinstance(name, (bool, int, float)):
        return json.dumps(name)
    raise TypeError(f"a key of type {type(key).__name__} has no form in JSON")


def _set(value: frozenset[Any]) -> list[Any]:
    # In one order: two answers about one thing are equal.
    return sorted(map(jsonable, value), key=json.dumps)


# The first that fits counts: a datetime is a date, too.
_WRITERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (Enum, lambda value: jsonable(value.value)),
    (str, _text),
    (int, _int),
    (float, _float),
    (Mapping, _object),
    ((list, tuple), lambda value: [jsonable(item) for item in value]),
    ((set, frozenset), _set),
    ((datetime, date, time), lambda value: value.isoformat()),
    (timedelta, duration_iso_string),
    ((Decimal, UUID, PurePath, Promise), str),
    ((bytes, bytearray), lambda value: b64encode(value).decode()),
)
