"""Where an entry stands: names joined by ``/``; the root scope is the empty path."""

from __future__ import annotations

from django_rivet.engine.exceptions import InvalidStepError

ROOT = ""
MAX_NAME_LENGTH = 200
MAX_PATH_BYTES = 2000  # PostgreSQL refuses longer values in an index


def child(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def is_under(path: str, scope: str) -> bool:
    """Whether ``path`` lies below ``scope``; a path does not lie below itself."""
    return not scope or path.startswith(f"{scope}/")


def scopes_around(path: str) -> list[str]:
    """The scopes around ``path`` from the nearest to the root."""
    scopes = []
    while path:
        path = parent(path)
        scopes.append(path)
    return scopes


def check_name(name: object, scope: str) -> str:
    """The name of an entry, or ``InvalidStepError`` that says which rule it breaks.

    A slash or a control character would let two different entries share a path.
    """
    where = f" in {scope!r}" if scope else ""
    if type(name) is not str:
        raise InvalidStepError(f"the name {name!r}{where} must be a string, not {type(name).__name__}")
    if not name or len(name) > MAX_NAME_LENGTH:
        raise InvalidStepError(
            f"the name {name[:40]!r}{where} must have 1 to {MAX_NAME_LENGTH} characters, not {len(name)}"
        )
    if "/" in name:
        raise InvalidStepError(f"the name {name!r}{where} must not contain '/', which joins names to paths")
    if not name.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in name):
        raise InvalidStepError(f"the name {name!r}{where} must not contain control characters or surrogates")
    if len(child(scope, name).encode()) > MAX_PATH_BYTES:
        raise InvalidStepError(
            f"the path of {name[:40]!r}{where[:80]} has over {MAX_PATH_BYTES} bytes; nest less or use shorter names"
        )
    return name
