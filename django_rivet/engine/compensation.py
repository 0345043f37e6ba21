"""Rollback from records: which handler is next, and what an attempt makes of its record. No workflow code runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django_rivet.engine import codec
from django_rivet.engine.decision import Wait
from django_rivet.engine.durations import later, seconds
from django_rivet.engine.entries import Compensation, Entry, UndoStatus
from django_rivet.engine.events import RollbackFailed
from django_rivet.engine.exceptions import (
    CriticalError,
    RollbackError,
    StepInterruptedError,
    StepTimeoutError,
    WorkflowUsageError,
)
from django_rivet.engine.failures import describe
from django_rivet.engine.options import StepOptions
from django_rivet.engine.retry import delay_after
from django_rivet.engine.undo import Scope


@dataclass(frozen=True, slots=True)
class RunHandler:
    """This handler's turn; the attempt is counted."""

    compensation: Compensation


@dataclass(frozen=True, slots=True)
class Stopped:
    """A handler is out of attempts, and older ones have to wait for an operator."""


@dataclass(frozen=True, slots=True)
class AllUndone:
    """Nothing is owed any more."""


NextUndo = RunHandler | Wait | Stopped | AllUndone

_HOPELESS = (CriticalError, RollbackError, StepInterruptedError, WorkflowUsageError)


def register(
    entry: Entry, owner: Scope, handler: str, args: str, options: StepOptions, *, outcome: str
) -> Compensation:
    """The compensation of a step, to be written together with the step's record."""

    def own(name: str) -> object:
        value = getattr(options, f"rollback_{name}")
        if value is not None:
            return value
        return getattr(options, f"retry_{name}" if name.startswith("backoff") else name)

    return Compensation(
        path=entry.path,
        run=entry.run,
        scope=owner.path,
        seq=entry.seq,
        handler=handler,
        args=args,
        output=entry.output,
        outcome=outcome,
        on_failure=owner.checkpoint or "stop",
        atomic=bool(own("atomic")),
        max_retries=int(own("max_retries")),  # type: ignore[call-overload]
        backoff_base=seconds(own("backoff_base"), "rollback_backoff_base"),
        backoff_max=seconds(own("backoff_max"), "rollback_backoff_max"),
        jitter=options.retry_jitter,
        timeout=seconds(own("timeout"), "rollback_timeout"),
    )


def next_undo(owed: Sequence[Compensation], now: datetime) -> NextUndo:
    """``owed``: newest first."""
    for compensation in owed:
        if compensation.status is UndoStatus.FAILED:
            if compensation.on_failure == "stop":
                return Stopped()
            continue
        if compensation.due_at is not None and compensation.due_at > now:
            return Wait(compensation.due_at)
        return RunHandler(
            replace(
                compensation,
                attempts=compensation.attempts + 1,
                started_at=compensation.started_at or now,
                due_at=None,
            )
        )
    return Stopped() if owed else AllUndone()


def undone(compensation: Compensation, now: datetime) -> Compensation:
    return replace(compensation, status=UndoStatus.COMPLETED, error=None, due_at=None, ended_at=now)


def failed(
    compensation: Compensation, error: BaseException, *, now: datetime, chance: float, workflow_id: str
) -> tuple[Compensation, RollbackFailed]:
    """The record and the event of a handler's attempt that raised ``error`` and ended ``now``."""
    # A handler that hangs once may get through next time, and giving up leaves an effect in the world.
    hopeless = isinstance(error, _HOPELESS) and not isinstance(error, StepTimeoutError)
    given_up = hopeless or compensation.attempts > compensation.max_retries
    due_at = None
    if not given_up:
        delay = delay_after(
            error,
            compensation.attempts,
            base=compensation.backoff_base,
            maximum=compensation.backoff_max,
            jitter=compensation.jitter,
            chance=chance,
        )
        due_at = later(now, delay, f"the retry of the rollback of {compensation.name!r}")
    info = describe(error)
    record = replace(
        compensation,
        status=UndoStatus.FAILED if given_up else UndoStatus.OWED,
        error=info,
        due_at=due_at,
        ended_at=now,
    )
    event = RollbackFailed(
        workflow_id=workflow_id,
        error=info,
        step_name=compensation.name,
        attempt=compensation.attempts,
        will_retry=not given_up,
    )
    return record, event


def arguments(compensation: Compensation) -> tuple[tuple[object, ...], dict[str, object], object]:
    """The step's positional arguments, its keyword arguments and its output, as recorded."""
    args, kwargs = codec.decode(compensation.args)
    output = codec.decode(compensation.output) if compensation.output is not None else None
    return tuple(args), kwargs, output
