"""JSON in, read strictly: what other readers would understand differently is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from django_rivet.actors.strict_json import NotJSONError, read_json


class StrictJSONParser(JSONParser):
    """Takes what ``read_json`` takes, so that nothing passes that could not be stored."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        # The body of Django's request knows DATA_UPLOAD_MAX_MEMORY_SIZE; reading from the stream goes past it.
        raw = stream.body if isinstance(stream, HttpRequest) else stream.read()
        try:
            return read_json(raw)
        except NotJSONError as error:
            raise ParseError(f"The body is {error}.") from None
