"""What a workflow can raise and catch.

Every error has a ``code``: the same word in HTTP answers, WebSocket frames and the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django_rivet.engine.entries import ErrorInfo, Failure


class RivetError(Exception):
    """The base of every error of django_rivet."""

    code = "rivet_error"


# Raised by a step's body on purpose ------------------------------------------------------------


class CriticalError(RivetError):
    """Raise it in a step's body: the step fails at once, without a retry."""

    code = "critical"


class RollbackError(RivetError):
    """Raise it in a step's body: no retry, and neither ``try_step`` nor a plain ``try_block`` catches it."""

    code = "rollback"


class RetryAfter(RivetError):  # noqa: N818 - the HTTP header's name, and the contract's
    """Raise it in a step's body: try again after ``seconds`` (or a ``timedelta``); it counts as a failed attempt.

    A delay that makes no sense (negative, not finite, centuries long) is replaced by the step's own backoff.
    """

    code = "retry_after"

    def __init__(self, seconds: float | timedelta, message: str = "") -> None:
        self.seconds = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        super().__init__(message or f"retry after {self.seconds:g} s")


class UserError(RivetError):
    """The only error whose text reaches a client.

    ``code`` is a machine-readable word, ``metadata`` any JSON, ``status`` the HTTP status.
    """

    code = "user_error"

    def __init__(
        self,
        message: str = "",
        code: str = "user_error",
        metadata: Mapping[str, Any] | None = None,
        status: int = 400,
    ) -> None:
        self.code = code
        self.metadata = dict(metadata) if metadata is not None else None
        self.status = status
        super().__init__(message)


# What comes back from a step -------------------------------------------------------------------


class StepTimeoutError(CriticalError):
    """The body ran longer than the step's ``timeout``; its late result cannot land."""

    code = "step_timeout"


class StepExhaustedError(RivetError):
    """A step failed on its last attempt.

    ``step_name``, ``attempts`` (those that were charged) and ``last_error`` ("Name: message") say which and why.
    """

    code = "step_exhausted"

    def __init__(self, step_name: str, attempts: int, last_error: str) -> None:
        self.step_name = step_name
        self.attempts = attempts
        self.last_error = last_error
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"step {step_name!r} failed after {times}: {last_error}")


class StepInterruptedError(RivetError):
    """A body ended without a recorded outcome once too often, or once where it may run only once.

    Whether its effect took place is unknown.
    """

    code = "step_interrupted"


class _BranchesFailedError(RivetError):
    """What ``JoinError`` and ``RaceError`` have in common.

    ``errors`` holds, by the name of the branch, what failed it: ``name`` and ``message``, and ``str()`` both. Where
    that was a step's failure, ``failures`` says more: ``kind``, ``step_name``, ``attempts``.
    """

    def __init__(self, message: str, errors: Mapping[str, ErrorInfo], failures: Mapping[str, Failure]) -> None:
        self.errors = dict(errors)
        self.failures = dict(failures)
        each = "; ".join(f"{name}: {error}" for name, error in self.errors.items())
        super().__init__(f"{message}: {each}" if each else message)


class JoinError(_BranchesFailedError):
    """Branches of a join failed, and all others have ended."""

    code = "join_failed"


class RaceError(_BranchesFailedError):
    """Every branch of a race failed, or it had none."""

    code = "race_failed"


class QueueTimeoutError(RivetError):
    """No message arrived before the deadline of ``queue.next``."""

    code = "queue_timeout"


class OutputNotSerializableError(RivetError, ValueError):
    """A value cannot be stored so that it reads back equal; ``path`` says where inside the value.

    Storable are the JSON types (strings as keys), datetime, date, time, timedelta, Decimal, UUID and bytes.
    """

    code = "output_not_serializable"

    def __init__(self, message: str, path: str = "$") -> None:
        self.path = path
        super().__init__(message)


# Mistakes in workflow code: never retried, never compensated -------------------------------------


class WorkflowUsageError(RivetError):
    """The workflow calls the engine wrongly; it fails as it stands, and nothing is compensated."""

    code = "workflow_usage"


class InvalidStepError(WorkflowUsageError, ValueError):
    """A name, duration or option that a verb was given is not allowed."""

    code = "invalid_step"


class HistoryDivergedError(WorkflowUsageError):
    """The code no longer fits the recorded history; nothing new was done."""

    code = "history_diverged"


class EntryInProgressError(WorkflowUsageError):
    """A verb was called while another entry of the same context is unfinished."""

    code = "entry_in_progress"


class RollbackCheckpointError(WorkflowUsageError):
    """A step has a rollback handler, but no ``rollback_checkpoint`` stands before it."""

    code = "rollback_checkpoint"


class RollbackHandlerError(WorkflowUsageError):
    """A rollback handler cannot be stored by name, or is not found any more."""

    code = "rollback_handler"


class StepOnlyError(WorkflowUsageError):
    """State, broadcasts, schedules and other actors belong inside a step, an action, a hook or a handler."""

    code = "step_only"


class MessageNotCompletedError(WorkflowUsageError):
    """A message was asked for while one that was received before is open: call its ``complete()`` first."""

    code = "previous_message_not_completed"


class MessageAlreadyCompletedError(WorkflowUsageError):
    """``complete()`` was called a second time; the first response holds."""

    code = "already_completed"


# How a workflow ended ----------------------------------------------------------------------------


class WorkflowFailedError(RivetError):
    """The workflow failed; ``error`` is what failed it (``name``, ``message``)."""

    code = "workflow_failed"

    def __init__(self, message: str, error: Any = None) -> None:
        self.error = error
        super().__init__(message)


class RunTimeoutError(RivetError):
    """The workflow took longer than ``Meta.run_timeout``: it failed, and what it owed was compensated.

    ``run_timeout`` is the limit in seconds, ``stood`` says where the workflow was. Workflow code cannot catch it.
    """

    code = "run_timeout"

    def __init__(self, run_timeout: float, stood: str) -> None:
        self.run_timeout = run_timeout
        self.stood = stood
        super().__init__(f"the workflow took longer than its run_timeout of {run_timeout:g} s; it stood {stood}")


class WorkflowCancelledError(RivetError):
    """The workflow was cancelled. Also the ``cause`` of a rollback that a cancellation asked for."""

    code = "workflow_cancelled"
