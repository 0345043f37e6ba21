"""The protocol: what a client may say, and how it is answered. Every frame is one JSON object."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any

from django.utils.duration import duration_iso_string

from django_rivet.engine import codec

MAX_FRAME_LENGTH = 1024 * 1024
"""In characters; a longer one closes the connection."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Events wanted from now on, or from after ``since``."""

    events: tuple[str, ...] | None
    """None: all that the client may see."""
    since: int | None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Events no longer wanted."""

    events: tuple[str, ...] | None
    """None: all."""


class FrameError(Exception):
    """A frame that changes nothing; the client is told why, and the connection stays."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def parse(text: str | None) -> Subscribe | Unsubscribe:
    """What a text frame says, or ``FrameError``. None: it was a binary one."""
    content = _json_object(text)
    kind = content.pop("type", None)
    if kind == "subscribe":
        frame: Subscribe | Unsubscribe = Subscribe(_events(content), _since(content))
    elif kind == "unsubscribe":
        frame = Unsubscribe(_events(content))
    else:
        raise FrameError("unknown_frame", 'there are frames of type "subscribe" and "unsubscribe"')
    if content:
        # A misspelt "events" would otherwise mean all of them.
        raise FrameError("invalid_frame", f"a frame of type {kind!r} has no {_shown(next(iter(content)))}")
    return frame


# What is sent ------------------------------------------------------------------------------------


def init(seq: int) -> str:
    return json.dumps({"type": "init", "seq": seq})


def event(name: str, payload: str, seq: int | None = None) -> str:
    """``payload`` as it is stored. Without ``seq``: the event is not stored."""
    frame: dict[str, Any] = {"type": "event", "name": name, "payload": _plain(payload)}
    if seq is not None:
        frame["seq"] = seq
    return json.dumps(frame, allow_nan=False, default=_as_text)


def gap(first: int, last: int) -> str:
    """The events with these numbers are gone."""
    return json.dumps({"type": "gap", "from": first, "to": last})


def error(code: str, message: str) -> str:
    return json.dumps({"type": "error", "code": code, "message": message})


# Below: how it is done ---------------------------------------------------------------------------

_MAX_SEQ = 2**63 - 1
_MAX_NAME = 200


def _json_object(text: str | None) -> dict[str, Any]:
    if text is None:
        raise FrameError("invalid_json", "send JSON in text frames, not in binary ones")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("invalid_json", "the frame is no JSON that can be read") from None
    if not isinstance(content, dict):
        raise FrameError("invalid_frame", 'a frame is an object with a "type"')
    return content


def _events(content: dict[str, Any]) -> tuple[str, ...] | None:
    events = content.pop("events", None)
    if events is None:
        return None
    if not isinstance(events, list) or not events or not all(isinstance(e, str) for e in events):
        raise FrameError("invalid_frame", '"events" is a list of names; leave it out to mean all')
    return tuple(events)


def _since(content: dict[str, Any]) -> int | None:
    since = content.pop("since", None)
    if since is not None and (type(since) is not int or not 0 <= since <= _MAX_SEQ):
        raise FrameError("invalid_frame", '"since" is the "seq" of the last event you have, or 0')
    return since


def _shown(name: str) -> str:
    return repr(name[:_MAX_NAME])


def _plain(payload: str) -> Any:
    try:
        return codec.decode(payload)
    except ValueError:
        # Reading never fails: what this version cannot decode is shown as it is.
        return payload


def _as_text(value: Any) -> str:
    """A stored value that JSON has no type for, in the form that the REST face gives it."""
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_iso_string(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value)
