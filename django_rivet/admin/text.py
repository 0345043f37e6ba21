"""What is stored, as text that is safe to look at: bounded, and with nothing in it that hides or reorders."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from django_rivet.engine.entries import ErrorInfo

UNREADABLE = "Unreadable error record"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text, or all of it."""

    text: str
    is_cut: bool = False


def visible(text: object) -> str:
    """Control characters and those that turn the direction of writing as ``\\u202e``.

    Escaping for HTML leaves them alone, and a key that holds one could pass for another key.
    """
    return _HIDING.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


def excerpt(text: str, limit: int) -> Excerpt:
    return Excerpt(visible(text[:limit]), len(text) > limit)


def pretty_json(stored: str, limit: int) -> Excerpt:
    """A stored value, indented; as it stands where it is no JSON (damaged, or cut already)."""
    try:
        text = json.dumps(json.loads(stored), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = stored
    return excerpt(text, limit)


def read_error(stored: str | None) -> ErrorInfo | None:
    """A stored error. One that cannot be read is shown as it stands: an operator's page never fails on its subject."""
    if stored is None:
        return None
    try:
        error = json.loads(stored)
        return ErrorInfo(str(error["name"]), str(error["message"]), str(error.get("stack", "")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ErrorInfo(UNREADABLE, stored)


# Private -----------------------------------------------------------------------------------------

# Lone surrogates, which JSON can spell, would fail the whole page: nothing can encode them.
# Tabs and line feeds stay; so do the joiners U+200C and U+200D, which several scripts are written with.
_HIDING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]"
)
