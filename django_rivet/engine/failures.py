"""Errors as data, and data as errors again.

What leaves a step is rebuilt from its record on the first run too, so that a workflow cannot tell a replay
from the first time.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.entries import Entry, ErrorInfo, Failure, FailureKind
from django_rivet.engine.exceptions import (
    CriticalError,
    JoinError,
    OutputNotSerializableError,
    QueueTimeoutError,
    RaceError,
    RollbackError,
    StepExhaustedError,
    StepInterruptedError,
    StepTimeoutError,
    _BranchesFailedError,
)

MAX_MESSAGE = 10_000
MAX_STACK = 20_000


@dataclass(frozen=True, slots=True)
class Origin:
    """What an error that left an entry knows about where it came from."""

    source: str
    """``step``, ``join``, ``race`` or ``queue``."""
    failure: Failure
    paths: frozenset[str]
    """The entries it passed through."""


def describe(error: BaseException) -> ErrorInfo:
    """An error as storable data, whatever its class does: a failure must never fail to be recorded."""
    return ErrorInfo(
        name=_text(type(error).__name__),
        message=_shorten(_text(_message(error)), MAX_MESSAGE),
        stack=_stack(error),
        metadata=_metadata(error),
    )


def origin_of(error: BaseException) -> Origin | None:
    return getattr(error, "__rivet_origin__", None)


def paths_through(error: BaseException) -> frozenset[str]:
    """The entries that an uncaught error passed through.

    One that came out of an entry counts by itself; one that was raised in answer to another passed where that did.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        origin = origin_of(current)
        if origin is not None:
            return origin.paths
        current = current.__cause__ or current.__context__
    return frozenset()


def step_error(entry: Entry, original: BaseException | None = None) -> Exception:
    """The error that a failed step raises into the workflow."""
    assert entry.error is not None
    info, kind = entry.error, entry.failure_kind
    error: Exception
    if kind is FailureKind.EXHAUSTED:
        error = StepExhaustedError(entry.name, entry.charged, str(info))
    else:
        cls = _AS_THEMSELVES.get(info.name) or _NEAREST[kind or FailureKind.CRITICAL]
        error = cls(info.message if info.name == cls.__name__ else str(info))
    failure = Failure(info, str(kind), entry.name, entry.charged, "step", entry.name)
    return _with_origin(error, Origin("step", failure, frozenset({entry.path})), original)


def queue_timeout(entry: Entry, names: Iterable[str]) -> QueueTimeoutError:
    """The error of a receive whose deadline passed."""
    wanted = ", ".join(names) or "any queue"
    error = QueueTimeoutError(f"no message arrived for {entry.name!r} ({wanted}) in time")
    failure = Failure(describe(error), None, None, 0, "queue", entry.name)
    _with_origin(error, Origin("queue", failure, frozenset({entry.path})), None)
    return error


def join_error(entry: Entry, failed: Sequence[Entry], original: BaseException | None = None) -> JoinError:
    """The error of a join, from the records of the branches that failed."""
    where = "a branch" if len(failed) == 1 else f"{len(failed)} branches"
    error = JoinError(f"join {entry.name!r} failed in {where}", *_told_by(failed))
    _with_branches(error, entry, failed, original)
    return error


def race_error(entry: Entry, failed: Sequence[Entry], original: BaseException | None = None) -> RaceError:
    """The error of a race that nobody has won."""
    why = "failed in every branch" if failed else "has no branches"
    error = RaceError(f"race {entry.name!r} {why}", *_told_by(failed))
    _with_branches(error, entry, failed, original)
    return error


def dump_branch_failure(error: Exception, branch: str) -> str:
    """What a branch's failure is made of again."""
    failure = failure_of(error, "branch", branch)
    if isinstance(error, RollbackError):
        failure = replace(failure, kind=str(FailureKind.ROLLBACK))
    return codec.encode({"failure": _as_dict(failure), "paths": sorted(paths_through(error))})


def failure_of(error: Exception, source: str, name: str) -> Failure:
    """Any error as the failure of the block, or branch, it was raised in: ``source`` and ``name`` say which."""
    origin = origin_of(error)
    if origin is None:
        return Failure(describe(error), source=source, name=name)
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


def dump_failure(failure: Failure) -> str:
    return codec.encode(_as_dict(failure))


def load_failure(text: str) -> Failure:
    return _from_dict(codec.decode(text))


# Below: how it is done ---------------------------------------------------------------------------

_NEAREST: dict[FailureKind, type[Exception]] = {
    FailureKind.CRITICAL: CriticalError,
    FailureKind.TIMEOUT: StepTimeoutError,
    FailureKind.ROLLBACK: RollbackError,
    FailureKind.INTERRUPTED: StepInterruptedError,
}

_AS_THEMSELVES: dict[str, type[Exception]] = {
    cls.__name__: cls for cls in (*_NEAREST.values(), OutputNotSerializableError)
}


def _told_by(failed: Iterable[Entry]) -> tuple[dict[str, ErrorInfo], dict[str, Failure]]:
    errors = {branch.name: branch.error for branch in failed if branch.error is not None}
    return errors, {branch.name: _from_dict(codec.decode(branch.output or "{}")["failure"]) for branch in failed}


def _with_branches(
    error: _BranchesFailedError, entry: Entry, failed: Iterable[Entry], original: BaseException | None
) -> None:
    asks_for_rollback = any(failure.kind == FailureKind.ROLLBACK for failure in error.failures.values())
    kind = str(FailureKind.ROLLBACK) if asks_for_rollback else None
    failure = Failure(describe(error), kind, source=str(entry.kind), name=entry.name)
    paths = {entry.path, *(branch.path for branch in failed)}
    paths |= {path for branch in failed for path in codec.decode(branch.output or "{}")["paths"]}
    _with_origin(error, Origin(str(entry.kind), failure, frozenset(paths)), original)


def _with_origin(error: Exception, origin: Origin, original: BaseException | None) -> Exception:
    error.__rivet_origin__ = origin  # type: ignore[attr-defined]
    error.__cause__ = original
    return error


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__} has no readable message>"


def _text(text: str) -> str:
    """What both databases can store: PostgreSQL refuses NUL characters and lone surrogates."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _stack(error: BaseException) -> str:
    """The traceback from the first frame on that is the user's: how the engine came to call it helps nobody."""
    first = error.__traceback__
    while first is not None and first.tb_next is not None and _is_ours(first):
        first = first.tb_next
    try:
        lines = "".join(traceback.format_exception(type(error), error, first))
    except Exception:
        lines = "".join(traceback.format_tb(first))
    return _text(lines[-MAX_STACK:])


def _is_ours(step: TracebackType) -> bool:
    module = str(step.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] in {"django_rivet", "contextlib", "asgiref"}


def _metadata(error: BaseException) -> dict[str, object]:
    """The error's own simple attributes."""
    try:
        attributes = list(vars(error).items())
    except Exception:
        return {}
    return {
        _text(str(name)): _text(value)[:MAX_MESSAGE] if isinstance(value, str) else value
        for name, value in attributes
        if not str(name).startswith("_") and _is_simple(value)
    }


def _is_simple(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    # A number of thousands of digits cannot be stored, and nobody would read it.
    return type(value) in (str, bool, type(None)) or (type(value) is int and abs(value) < 2**63)


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
