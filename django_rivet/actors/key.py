"""The key of an actor: one canonical text, its parts, and its form in a URL.

``"main"`` and ``("main",)`` are one key. The canonical text joins the parts with ``/``, which no
part may hold, so two different keys never share a text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django_rivet.actors.exceptions import InvalidKeyError

MAX_KEY_BYTES = 1024
"""Of the canonical text in UTF-8, the separators included."""

Key = str | Sequence[str]


def normalize_key(key: Key) -> str:
    """The canonical text of ``key``, or ``InvalidKeyError`` that names the part and the rule."""
    parts = _given_parts(key)
    if not parts:
        raise InvalidKeyError("a key needs at least one part")
    for index, part in enumerate(parts):
        _refuse_part(part, "the key" if len(parts) == 1 else f"part {index + 1} of the key")
    text = "/".join(parts)
    size = len(text.encode())
    if size > MAX_KEY_BYTES:
        raise InvalidKeyError(f"the key is {size} bytes long; at most {MAX_KEY_BYTES} are allowed")
    return text


def key_parts(text: str) -> tuple[str, ...]:
    """The parts of a canonical text."""
    return tuple(text.split("/"))


def key_to_url(text: str) -> str:
    """A canonical text as one segment of a URL, not yet percent-encoded.

    Parts are joined by ``~``; a ``~`` inside a part is ``~0``. A part that begins with ``0`` is
    joined by ``~~~`` instead, else ``("a", "0b")`` and ``"a~b"`` would be one URL.
    """
    first, *others = (part.replace("~", "~0") for part in key_parts(text))
    return first + "".join(("~~~" if part[0] == "0" else "~") + part for part in others)


def key_from_url(segment: str) -> str:
    """The canonical text of what ``key_to_url`` wrote; anything else is an ``InvalidKeyError``."""
    parts = [""]
    for piece in _PIECE.findall(segment):
        if piece == "~0":
            parts[-1] += "~"
        elif piece[0] == "~":
            parts.append("")
        else:
            parts[-1] += piece
    return normalize_key(parts)


# ~~~ is free to mean something: no part is empty, so ~~ is a separator and then ~0.
_PIECE = re.compile(r"~~~(?=0)|~0|~|[^~]+")

_FORBIDDEN = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\udfff]").search


def _given_parts(key: object) -> tuple[Any, ...]:
    if type(key) is str:
        return (key,)
    if isinstance(key, Sequence) and not isinstance(key, (str, bytes, bytearray, memoryview)):
        return tuple(key)
    raise InvalidKeyError(f"a key is a plain str or a sequence of them, not {type(key).__qualname__}")


def _refuse_part(part: object, what: str) -> None:
    if type(part) is not str:
        raise InvalidKeyError(f"{what} is of type {type(part).__qualname__}; use a plain str, like str(value)")
    if part in ("", ".", ".."):
        raise InvalidKeyError(f"{what} is {part!r}, which is not allowed")
    found = _FORBIDDEN(part)
    if found is None:
        return
    if found[0] == "/":
        raise InvalidKeyError(f'{what} holds a "/": give a sequence of parts, like ("tenant-1", "order-9")')
    kind = "a lone surrogate" if found[0] >= "\ud800" else "a control character"
    raise InvalidKeyError(f"{what} holds {kind} ({found[0]!a}) at index {found.start()}")
