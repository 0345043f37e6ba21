"""JSON from outside, read strictly: what other readers would understand differently is refused."""

from __future__ import annotations

import json
from typing import Any

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.engine import codec
from django_rivet.engine.exceptions import OutputNotSerializableError


class NotJSONError(Exception):
    """Says why, as the end of a sentence: "no JSON: ..."."""


def read_json(text: str | bytes) -> Any:
    """What can be stored too: ``parse_json`` and ``refuse_unstorable``."""
    data = parse_json(text)
    refuse_unstorable(data)
    return data


def parse_json(text: str | bytes) -> Any:
    """UTF-8 only, no NaN, no name twice in an object, no bomb; else ``NotJSONError``."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        return json.loads(decoded, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise NotJSONError("no JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise NotJSONError(f"no JSON: {error}") from None


def refuse_unstorable(data: Any) -> None:
    """``InvalidInputError`` names the place of a NUL, a lone surrogate, a number beyond a float, or a container inside
    too many others: else it would fail later, deep inside an action, and look like a fault of the server.
    """
    try:
        codec.encode(data)
    except OutputNotSerializableError as error:
        path = error.path.removeprefix("$").removeprefix(".") or "$"
        reason = str(error).removeprefix(f"{error.path}: ")
        raise InvalidInputError(f"{path}: {reason}", [{"path": path, "message": reason}]) from None


# Below: how it is done ---------------------------------------------------------------------------


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!a} stands twice in one object")
    return found
