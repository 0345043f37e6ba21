"""The types beyond JSON's own, and how each is written. The table is fixed.

Texts written today are read by later versions: an entry may be added, never changed or taken out.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from django_rivet.engine.codec_refusals import UnstorableError, named, refuse_text

_Moment = TypeVar("_Moment", datetime, time)

# Each writer gets a value of exactly its type; the reader of the same tag is its inverse.


def _write_moment(value: datetime | time) -> str | dict[str, Any]:
    """ISO 8601 where that says all; else that and what it leaves out: zone, name, fold."""
    zone = value.tzinfo
    more: dict[str, Any] = {"fold": 1} if value.fold else {}
    if type(zone) is ZoneInfo and zone.key:
        # By name, not by offset: what the code does with it tomorrow depends on the zone's rules.
        more["zone"] = zone.key
        value = value.replace(tzinfo=None)
    elif type(zone) is timezone:
        offset, name = zone.utcoffset(None), zone.tzname(None)
        if zone is not UTC and name != timezone(offset).tzname(None):
            refuse_text(name, "the time zone's name")
            more["name"] = name
        if offset.microseconds:
            # fromisoformat takes +00:00:00.000001 for UTC.
            more["offset"] = _write_timedelta(offset)
            value = value.replace(tzinfo=None)
    elif zone is not None:
        raise UnstorableError(
            f"a time with a tzinfo of type {named(type(zone))} cannot be stored: "
            "use .astimezone(datetime.timezone.utc) or a zoneinfo.ZoneInfo with a key"
        )
    return {"at": value.isoformat(), **more} if more else value.isoformat()


def _read_moment(kind: type[_Moment], content: Any) -> _Moment:
    if isinstance(content, str):
        return kind.fromisoformat(content)
    moment = kind.fromisoformat(content["at"]).replace(fold=content.get("fold", 0))
    if "zone" in content:
        return moment.replace(tzinfo=ZoneInfo(content["zone"]))
    if "offset" in content:
        moment = moment.replace(tzinfo=timezone(_read_timedelta(content["offset"])))
    if "name" in content:
        moment = moment.replace(tzinfo=timezone(moment.utcoffset() or timedelta(0), content["name"]))
    return moment


def _write_timedelta(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(content: Any) -> timedelta:
    return timedelta(*content)


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise UnstorableError(f"Decimal({str(value)!r}) cannot be stored: only finite numbers can")
    return str(value)


def _write_bytes(value: bytes) -> str:
    return b64encode(value).decode("ascii")


_TABLE: tuple[tuple[str, type, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("$datetime", datetime, _write_moment, partial(_read_moment, datetime)),
    ("$date", date, date.isoformat, date.fromisoformat),
    ("$time", time, _write_moment, partial(_read_moment, time)),
    ("$timedelta", timedelta, _write_timedelta, _read_timedelta),
    ("$decimal", Decimal, _write_decimal, Decimal),
    ("$uuid", UUID, str, UUID),
    ("$bytes", bytes, _write_bytes, b64decode),
)

WRITERS = {kind: (tag, write) for tag, kind, write, _ in _TABLE}
READERS = {tag: read for tag, _, _, read in _TABLE}
