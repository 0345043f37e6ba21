"""Why a value cannot be stored, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID


class UnstorableError(Exception):
    """Says why; the containers around write into ``trail`` where, from the inside out."""

    def __init__(self, reason: str) -> None:
        self.trail: list[str | int] = []
        super().__init__(reason)


def refuse_text(text: str, what: str = "the text") -> None:
    """``UnstorableError`` where a database or UTF-8 would refuse ``text``."""
    found = _UNSTORABLE(text)
    if found:
        # The key itself stays out of the message: it could not be stored or sent either.
        kind = "a NUL character" if found[0] == "\0" else f"a lone surrogate ({found[0]!a})"
        raise UnstorableError(f"{what} holds {kind} at index {found.start()}, which cannot be stored")


def named(kind: type) -> str:
    """``kind`` as an error message calls it."""
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def hint_for(value: Any) -> str:
    """The way out for a value of a type that is not storable."""
    # Only the type is asked: a lazy object would fetch its row for being looked at.
    kind = type(value)
    for kinds, hint in _HINTS:
        if issubclass(kind, kinds):
            return hint
    for attribute, hint in _HINTS_BY_ATTRIBUTE:
        if hasattr(kind, attribute):
            return hint
    return "store plain values: its id, or a dict of the fields you need"


_UNSTORABLE = re.compile("[\0\ud800-\udfff]").search

_HINTS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Enum, "use .value"),
    # str() of a SafeString is that SafeString again.
    (str, "only str itself; use str.__str__(value)"),
    (int, "only int itself; use int(value)"),
    (float, "only float itself; use float(value)"),
    (list, "only list itself; use list(value)"),
    (tuple, "only tuple itself; use tuple(value), or ._asdict() of a named one"),
    ((dict, Mapping), "only dict itself; use dict(value)"),
    (Set, "a set has no order that a replay could keep; use sorted(value)"),
    ((bytes, bytearray, memoryview), "use bytes(value)"),
    (datetime, "only datetime itself; use datetime.fromisoformat(value.isoformat())"),
    (date, "only date itself; use date.fromisoformat(value.isoformat())"),
    (time, "only time itself; use time.fromisoformat(value.isoformat())"),
    (timedelta, "only timedelta itself; use timedelta(seconds=value.total_seconds())"),
    (Decimal, "only Decimal itself; use Decimal(value)"),
    (UUID, "only UUID itself; use UUID(str(value))"),
    (complex, "use [value.real, value.imag]"),
    (BaseException, "use str(value)"),
)

_HINTS_BY_ATTRIBUTE = (
    ("__await__", "await it first"),
    ("_meta", "store its pk and load it again where it is needed"),
    ("model_dump", "use .model_dump()"),
    ("__dataclass_fields__", "use dataclasses.asdict(value)"),
    # Django's lazy strings.
    ("_delegate_text", "use str(value)"),
    ("__next__", "use list(value)"),
    ("as_manager", "use list(value.values(...))"),
)
