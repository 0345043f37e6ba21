"""Engine records as rows, and back."""

from __future__ import annotations

from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.entries import (
    Compensation,
    Entry,
    EntryStatus,
    ErrorInfo,
    FailureKind,
    Kind,
    UndoStatus,
)
from django_rivet.store.database import aware

UNREADABLE = "UnreadableError"
"""The name under which a damaged error record is shown; its message is what is stored."""

ENTRY_COLUMNS = (
    "path",
    "kind",
    "status",
    "seq",
    "attempts",
    "interruptions",
    "run",
    "atomic",
    "binds",
    "output",
    "error",
    "failure_kind",
    "due_at",
    "started_at",
    "ended_at",
)
COMPENSATION_COLUMNS = (
    "path",
    "run",
    "scope",
    "seq",
    "handler",
    "args",
    "status",
    "output",
    "outcome",
    "on_failure",
    "atomic",
    "max_retries",
    "backoff_base",
    "backoff_max",
    "jitter",
    "timeout",
    "attempts",
    "error",
    "note",
    "decided_by",
    "due_at",
    "started_at",
    "ended_at",
)


def entry_values(entry: Entry) -> list[Any]:
    return [_plain(getattr(entry, column)) for column in ENTRY_COLUMNS]


def compensation_values(compensation: Compensation) -> list[Any]:
    return [_plain(getattr(compensation, column)) for column in COMPENSATION_COLUMNS]


def entry_from(values: tuple[Any, ...]) -> Entry:
    row = dict(zip(ENTRY_COLUMNS, values, strict=True))
    return Entry(
        **{
            **row,
            "kind": Kind(row["kind"]),
            "status": EntryStatus(row["status"]),
            "atomic": bool(row["atomic"]),
            "binds": bool(row["binds"]),
            "error": load_error(row["error"]),
            "failure_kind": FailureKind(row["failure_kind"]) if row["failure_kind"] else None,
            "due_at": aware(row["due_at"]),
            "started_at": aware(row["started_at"]),
            "ended_at": aware(row["ended_at"]),
        }
    )


def compensation_from(values: tuple[Any, ...]) -> Compensation:
    row = dict(zip(COMPENSATION_COLUMNS, values, strict=True))
    return Compensation(
        **{
            **row,
            "status": UndoStatus(row["status"]),
            "atomic": bool(row["atomic"]),
            "error": load_error(row["error"]),
            "due_at": aware(row["due_at"]),
            "started_at": aware(row["started_at"]),
            "ended_at": aware(row["ended_at"]),
        }
    )


def dump_error(error: ErrorInfo) -> str:
    return codec.encode(error.as_dict())


def load_error(text: str | None) -> ErrorInfo | None:
    return ErrorInfo(**codec.decode(text)) if text is not None else None


def _plain(value: Any) -> Any:
    if isinstance(value, ErrorInfo):
        return dump_error(value)
    return str(value) if isinstance(value, (Kind, EntryStatus, FailureKind, UndoStatus)) else value
