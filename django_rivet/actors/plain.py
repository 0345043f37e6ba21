"""What pydantic leaves behind when it has taken models apart, in the codec's own types."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from django_rivet.engine import codec


def plain(value: Any) -> Any:
    """``value`` with its enum members, sets, paths, addresses and typed keys made storable.

    The declared type makes them again when it loads them. Raises ``ValueError`` with the reason
    where it could not.
    """
    kind = type(value)
    if kind in _AS_IS:
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return _plain_dict(value)
    if isinstance(value, (set, frozenset)):
        # In one order, whatever the process: an unchanged state must have an unchanged text.
        return sorted(map(plain, value), key=codec.encode)
    if isinstance(value, (SecretStr, SecretBytes)):
        raise ValueError(f"a {kind.__name__} would be stored in the clear; keep it out of actors")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    try:
        return to_jsonable_python(value)
    except ValueError:
        # The codec refuses it and knows a better word for why.
        return value


_AS_IS = {type(None), bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID}


def _plain_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    result = {_plain_key(key): plain(item) for key, item in value.items()}
    if len(result) < len(value):
        raise ValueError("two keys of a dict would be stored as one")
    return result


def _plain_key(key: Any) -> Any:
    key = plain(key)
    if isinstance(key, (date, time)):
        return key.isoformat()
    return str(key) if isinstance(key, (int, float, Decimal, UUID)) else key
