"""JSON in, read strictly: what other readers would understand differently is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.engine import codec
from django_rivet.engine.exceptions import OutputNotSerializableError


class StrictJSONParser(JSONParser):
    """UTF-8 only; no NaN, no number beyond a float, no name twice in an object, no NUL, no lone surrogate, no bomb.

    What passes can be stored, so that no value fails later, deep inside an action, where it would look like a fault
    of the server.
    """

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        # The body of Django's request knows DATA_UPLOAD_MAX_MEMORY_SIZE; reading from the stream goes past it.
        raw = stream.body if isinstance(stream, HttpRequest) else stream.read()
        try:
            data = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_object)
        except RecursionError:
            raise ParseError("The body is no JSON that can be read: it is nested too deeply.") from None
        except ValueError as error:
            raise ParseError(f"The body is no JSON: {error}.") from None
        _refuse_unstorable(data)
        return data


# Below: how it is done ---------------------------------------------------------------------------


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!a} stands twice in one object")
    return found


def _refuse_unstorable(data: Any) -> None:
    try:
        codec.encode(data)
    except OutputNotSerializableError as error:
        path = error.path.removeprefix("$").removeprefix(".") or "$"
        reason = str(error).removeprefix(f"{error.path}: ")
        raise InvalidInputError(f"{path}: {reason}", [{"path": path, "message": reason}]) from None
