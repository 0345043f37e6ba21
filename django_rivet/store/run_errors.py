"""What failed a workflow, as it is stored with it."""

from __future__ import annotations

from dataclasses import dataclass

from django_rivet.engine import codec
from django_rivet.engine.entries import ErrorInfo
from django_rivet.store.records import UNREADABLE


@dataclass(frozen=True, slots=True)
class RunError:
    """An error that left the workflow."""

    error: ErrorInfo
    through: frozenset[str] = frozenset()
    """Paths of the entries it passed."""
    tries: int = 0
    """How often a diverged actor was tried since."""
    in_block: bool = False
    """A rollback handler of a block is out of attempts; the workflow itself has not failed."""


def dump_run_error(error: RunError) -> str:
    return codec.encode(
        {**error.error.as_dict(), "through": sorted(error.through), "tries": error.tries, "in_block": error.in_block}
    )


def load_run_error(text: str | None) -> RunError | None:
    if text is None:
        return None
    try:
        stored = codec.decode(text)
        return RunError(
            ErrorInfo(stored["name"], stored["message"], stored["stack"], stored["metadata"]),
            frozenset(stored["through"]),
            stored["tries"],
            stored["in_block"],
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        # What it said is gone; that there was one still decides how the workflow goes on.
        return RunError(ErrorInfo(UNREADABLE, text))
