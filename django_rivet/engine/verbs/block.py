"""``try_block``: failures as data; with ``rollback=True`` what the block did is undone first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.entries import Entry, EntryStatus, ErrorInfo, Failure, Result
from django_rivet.engine.exceptions import RollbackError
from django_rivet.engine.failures import describe, origin_of

CATCHABLE = ("step", "join", "race", "queue", "rollback")
DEFAULT_CATCH = ("step", "join", "race", "queue")


def caught(error: Exception, catch: Collection[str], name: str) -> Failure | None:
    """The failure as a plain block returns it; None where it has to pass."""
    origin = origin_of(error)
    if isinstance(error, RollbackError):
        if "rollback" not in catch:
            return None
        return failure_of(error, name)
    if origin is None or origin.source not in catch:
        return None
    return failure_of(error, name)


def failure_of(error: Exception, block: str) -> Failure:
    """Any error as the failure of the block it was raised in."""
    origin = origin_of(error)
    if origin is None:
        return Failure(describe(error), source="block", name=block)
    failure = origin.failure
    return Failure(
        failure.error,
        failure.kind,
        failure.step_name,
        failure.attempts,
        origin.source,
        failure.name,
        failure if origin.source == "step" else None,
    )


def recorded(entry: Entry) -> Result | None:
    """The outcome of a block with ``rollback=True``; None while it has none."""
    if entry.status is EntryStatus.COMPLETED:
        return Result(True, codec.decode(entry.output or "null"))
    if entry.status is EntryStatus.FAILED:
        return Result(False, failure=load_failure(entry.output or "{}"))
    return None


def dump_failure(failure: Failure) -> str:
    return codec.encode(_as_dict(failure))


def load_failure(text: str) -> Failure:
    return _from_dict(codec.decode(text))


# Below: how it is done ---------------------------------------------------------------------------


def _as_dict(failure: Failure) -> dict[str, Any]:
    return {
        "error": failure.error.as_dict(),
        "kind": failure.kind,
        "step_name": failure.step_name,
        "attempts": failure.attempts,
        "source": failure.source,
        "name": failure.name,
        "step": _as_dict(failure.step) if failure.step is not None else None,
    }


def _from_dict(stored: dict[str, Any]) -> Failure:
    step = stored.pop("step", None)
    error = ErrorInfo(**stored.pop("error"))
    return Failure(error, **stored, step=_from_dict(step) if step else None)
