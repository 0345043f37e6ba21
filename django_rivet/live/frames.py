"""The protocol: what a client may say, and how it is answered. Every frame is one JSON object."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django_rivet.actors.json_values import stored_value
from django_rivet.actors.strict_json import NotJSONError, parse_json
from django_rivet.runtime.answers import Failure

MAX_FRAME_LENGTH = 1024 * 1024
"""In characters; a longer one closes the connection."""

MAX_NAME = 200
"""Characters of a name, and of an id."""

TYPES = ("subscribe", "unsubscribe", "action", "send")
"""Of frames that a client may send."""

Id = str | int | None
"""By which a client knows the answer to a frame; None: it gave none."""


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


@dataclass(frozen=True, slots=True)
class Call:
    """An action to be run, or a message to be stored."""

    kind: str
    """``"action"`` or ``"queue"``."""
    name: str
    body: dict[str, Any]
    """The other fields, which nobody has looked at: faults are told only to who is let in."""


class FrameError(Exception):
    """A frame that changes nothing; the client is told why, and the connection stays."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read(text: str | None) -> dict[str, Any]:
    """The fields of a text frame, or ``FrameError``. None: it was a binary one."""
    if text is None:
        raise FrameError("invalid_json", "send JSON in text frames, not in binary ones")
    try:
        content = parse_json(text)
    except NotJSONError as error:
        raise FrameError("invalid_json", f"the frame is {error}") from None
    if not isinstance(content, dict):
        raise FrameError("invalid_frame", 'a frame is an object with a "type"')
    return content


def take_id(content: dict[str, Any]) -> Id:
    """Takes the id out."""
    given = content.pop("id", None)
    is_text = isinstance(given, str) and len(given) <= MAX_NAME
    if given is None or is_text or (type(given) is int and abs(given) <= _MAX_SAFE_INT):
        return given  # type: ignore[no-any-return]
    raise FrameError("invalid_frame", f'"id" is a string of at most {MAX_NAME} characters, or a whole number')


def parse(content: dict[str, Any]) -> Subscribe | Unsubscribe | Call:
    """What these fields say, the id aside, or ``FrameError``."""
    kind = content.pop("type", None)
    if kind == "action":
        return Call("action", _name(content, "action"), content)
    if kind == "send":
        return Call("queue", _name(content, "queue"), content)
    if kind == "subscribe":
        frame: Subscribe | Unsubscribe = Subscribe(_events(content), _since(content))
    elif kind == "unsubscribe":
        frame = Unsubscribe(_events(content))
    else:
        raise FrameError("unknown_frame", f"there are frames of type {', '.join(TYPES)}")
    if content:
        # A misspelt "events" would otherwise mean all of them.
        raise FrameError("invalid_frame", f"a frame of type {kind!r} has no {_shown(next(iter(content)))}")
    return frame


# What is sent ------------------------------------------------------------------------------------


def init(seq: int) -> str:
    return json.dumps({"type": "init", "seq": seq})


def event(name: str, payload: str, seq: int | None = None) -> str:
    """``payload`` as it is stored. Without ``seq``: the event is not stored."""
    frame: dict[str, Any] = {"type": "event", "name": name, "payload": stored_value(payload)}
    if seq is not None:
        frame["seq"] = seq
    return json.dumps(frame, allow_nan=False)


def gap(first: int, last: int) -> str:
    """The events with these numbers are gone."""
    return json.dumps({"type": "gap", "from": first, "to": last})


def result(output: Any, frame_id: Id) -> str:
    """``output`` is JSON."""
    return json.dumps(_answer("result", frame_id) | {"output": output}, allow_nan=False)


def error(code: str, message: str, frame_id: Id = None) -> str:
    return failure(Failure(400, code, message), frame_id)


def failure(failed: Failure, frame_id: Id = None) -> str:
    fields = {"code": failed.code, "message": failed.message, "metadata": failed.metadata}
    return json.dumps(_answer("error", frame_id) | fields)


# Below: how it is done ---------------------------------------------------------------------------

_MAX_SEQ = 2**63 - 1
_MAX_SAFE_INT = 2**53 - 1  # the largest that every reader of JSON gives back as it was


def _answer(kind: str, frame_id: Id) -> dict[str, Any]:
    return {"type": kind} if frame_id is None else {"type": kind, "id": frame_id}


def _name(content: dict[str, Any], field: str) -> str:
    name = content.pop(field, None)
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise FrameError("invalid_frame", f'"{field}" is the name of the {field}')
    return name


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
    return repr(name[:MAX_NAME])
