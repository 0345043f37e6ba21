"""Pages by cursor: none is skipped or shown twice while others are added."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request


class ActorPagination(CursorPagination):
    """By key, which is unique in a type and has an index."""

    ordering: Any = "key"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
    position = re.compile("[^\0]+")
    """What a cursor may point at; REST framework would hand anything to the database."""

    def decode_cursor(self, request: Request) -> Any:
        try:
            cursor = super().decode_cursor(request)
        except NotFound:
            raise ValidationError({"cursor": self.invalid_cursor_message}) from None
        position = getattr(cursor, "position", None)
        if position is not None and not self.position.fullmatch(position):
            raise ValidationError({"cursor": self.invalid_cursor_message})
        return cursor


class HistoryPagination(ActorPagination):
    """In the order in which things happened."""

    ordering = ("seq", "id")
    position = re.compile("[0-9]{1,18}")
