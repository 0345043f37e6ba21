"""``try_block``: failures as data; with ``rollback=True`` what the block did is undone first."""

from __future__ import annotations

from collections.abc import Collection

from django_rivet.engine import codec
from django_rivet.engine.entries import Entry, EntryStatus, Failure, FailureKind, Result
from django_rivet.engine.exceptions import RollbackError
from django_rivet.engine.failures import failure_of, load_failure, origin_of

CATCHABLE = ("step", "join", "race", "queue", "rollback")
DEFAULT_CATCH = ("step", "join", "race", "queue")


def caught(error: Exception, catch: Collection[str], name: str) -> Failure | None:
    """The failure as a plain block returns it; None where it has to pass."""
    origin = origin_of(error)
    # A step that asked for it may stand in a branch of a join that failed.
    asks_for_rollback = isinstance(error, RollbackError) or (
        origin is not None and origin.failure.kind == FailureKind.ROLLBACK
    )
    source = "rollback" if asks_for_rollback else origin and origin.source
    return failure_of(error, "block", name) if source in catch else None


def recorded(entry: Entry) -> Result | None:
    """The outcome of a block with ``rollback=True``; None while it has none."""
    if entry.status is EntryStatus.COMPLETED:
        return Result(True, codec.decode(entry.output or "null"))
    if entry.status is EntryStatus.FAILED:
        return Result(False, failure=load_failure(entry.output or "{}"))
    return None
