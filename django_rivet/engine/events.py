"""What an error hook is told."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar

from django_rivet.engine.entries import ErrorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent:
    """The common part; ``kind`` says which of the three it is."""

    kind: ClassVar[str]
    workflow_id: str
    error: ErrorInfo

    def as_dict(self) -> dict[str, Any]:
        """Storable: usable as state, as an event's payload or in a message."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "error"}
        return {"kind": self.kind, **values, "error": self.error.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed(ErrorEvent):
    """An attempt of a step failed; the last one where ``will_retry`` is false."""

    kind: ClassVar[str] = "step"
    step_name: str
    attempt: int
    """From 1."""
    max_retries: int
    remaining_retries: int
    will_retry: bool
    retry_delay: float | None = None
    """Seconds."""
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackFailed(ErrorEvent):
    """An attempt of a rollback handler failed."""

    kind: ClassVar[str] = "rollback"
    step_name: str
    attempt: int
    will_retry: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFailed(ErrorEvent):
    """An error that no step reported left the workflow."""

    kind: ClassVar[str] = "workflow"
