"""Values as JSON text and back, equal in type and content.

Everything a workflow keeps (outputs, messages, state, arguments) passes through here, and what the
code gets to see is always the decoded copy, so the first run and a replay see the same thing.

Storable are exactly: None, bool, int, float, str, list, dict with string keys, tuple (comes back as
a list), and the types of ``codec_tags``: datetime, date, time, timedelta, Decimal, UUID and bytes.
Those are written as an object with one key that begins with ``$``: ``{"$uuid": "..."}``. A user's
dict of that shape gets one ``$`` more on the way in and loses it on the way out.

Subclasses are refused, not flattened: an enum member or a SafeString that came back as a plain str
would make a replay differ from the first run.
"""

from __future__ import annotations

from json import JSONDecoder, JSONEncoder
from math import isfinite
from typing import Any

from django_rivet.engine.codec_refusals import UnstorableError, hint_for, named, refuse_text
from django_rivet.engine.codec_tags import READERS, WRITERS
from django_rivet.engine.exceptions import HistoryDivergedError, OutputNotSerializableError

MAX_DEPTH = 100
"""How many containers may stand inside each other."""

MAX_INT_DIGITS = 4300
"""Python's own default: a longer int could be written by one process and refused by another."""


def encode(value: Any, depth: int = MAX_DEPTH) -> str:
    """The compact JSON text of ``value``; keys keep their order.

    What would not read back equal raises ``OutputNotSerializableError``, whose ``path`` says where
    inside the value it stands, like ``$.items[2].price``.
    """
    try:
        return _to_json(_plain(value, depth))
    except UnstorableError as fault:
        raise _located(fault, value) from None
    except RecursionError:
        raise OutputNotSerializableError(
            "the value cannot be stored from here: the Python stack is almost full"
        ) from None


def decode(text: str) -> Any:
    """The value that ``encode`` made ``text`` of. ``ValueError`` where it never did."""
    # Most texts hold no tag, and without a hook per object the C scanner is twice as fast.
    return (_from_tagged_json if '{"$' in text else _from_json)(text)


def decode_record(text: str, what: str) -> Any:
    """What is on record for ``what``. ``HistoryDivergedError`` where it is damaged, or was written by newer code."""
    try:
        return decode(text)
    except ValueError as error:
        raise HistoryDivergedError(f"{what} cannot be read: {error}") from error


def copy(value: Any) -> Any:
    """What a replay will see in place of ``value``; shares nothing with it."""
    return decode(encode(value))


# On the way in ----------------------------------------------------------------------------------

_to_json = JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode
_INT_BOUND = 10**MAX_INT_DIGITS
_TOO_DEEP = f"more than {MAX_DEPTH} containers inside each other cannot be stored"


def _plain(value: Any, room: int) -> Any:
    """``value`` in JSON's own types; containers are copied."""
    kind = type(value)
    if kind is str:
        # isascii is a flag that the string carries: the common case looks at no character but NUL.
        if "\0" in value or not value.isascii():
            refuse_text(value)
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        if not -_INT_BOUND < value < _INT_BOUND:
            raise UnstorableError(f"an int of more than {MAX_INT_DIGITS} digits cannot be stored")
        return value
    if kind is float:
        if not isfinite(value):
            raise UnstorableError(f"{value!r} cannot be stored: JSON has only finite numbers")
        return value
    if kind is dict:
        return _plain_dict(value, room - 1)
    if kind is list or kind is tuple:
        return _plain_list(value, room - 1)
    if kind in WRITERS:
        name, write = WRITERS[kind]
        return {name: write(value)}
    raise UnstorableError(f"a value of type {named(kind)} cannot be stored: {hint_for(value)}")


def _plain_dict(value: dict[Any, Any], room: int) -> dict[str, Any]:
    if room < 0:
        raise UnstorableError(_TOO_DEEP)
    plain = {}
    for key, item in value.items():
        if type(key) is not str:
            raise UnstorableError(f"a key is of type {named(type(key))}: keys must be plain strings")
        if "\0" in key or not key.isascii():
            refuse_text(key, "the key")
        try:
            plain[key] = _plain(item, room)
        except UnstorableError as fault:
            fault.trail.append(key)
            raise
    if len(plain) == 1 and key[:1] == "$":
        return {"$" + key: plain[key]}
    return plain


def _plain_list(value: list[Any] | tuple[Any, ...], room: int) -> list[Any]:
    if room < 0:
        raise UnstorableError(_TOO_DEEP)
    plain = []
    for item in value:
        try:
            plain.append(_plain(item, room))
        except UnstorableError as fault:
            fault.trail.append(len(plain))
            raise
    return plain


def _located(fault: UnstorableError, value: Any) -> OutputNotSerializableError:
    """The public error: the fault's trail was written from the inside out."""
    trail = fault.trail[::-1]
    reason = str(fault)
    if reason == _TOO_DEEP:
        # A value that contains itself is met as one without end; here the trail tells them apart.
        seen: dict[int, list[str | int]] = {}
        for steps, part in enumerate(trail):
            if id(value) in seen:
                reason = f"the value contains itself (it is {_path(seen[id(value)])} again)"
                trail = trail[:steps]
                break
            seen[id(value)] = trail[:steps]
            value = value[part]
    path = _path(trail)
    return OutputNotSerializableError(f"{path}: {reason}", path)


def _path(trail: list[str | int]) -> str:
    return "$" + "".join(
        f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{_to_json(part)}]" for part in trail
    )


# On the way out ---------------------------------------------------------------------------------


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _untagged(found: dict[str, Any]) -> Any:
    if len(found) != 1:
        return found
    [(key, content)] = found.items()
    if key[:1] != "$":
        return found
    if key[:2] == "$$":
        return {key[1:]: content}
    if key not in READERS:
        raise ValueError(f"the stored value holds {key}, which this version of django_rivet does not know")
    return READERS[key](content)


_from_json = JSONDecoder(parse_constant=_refuse_constant).decode
_from_tagged_json = JSONDecoder(parse_constant=_refuse_constant, object_hook=_untagged).decode
