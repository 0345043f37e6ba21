"""``step``: what a record says about it, and what an attempt makes of the record."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.decision import Decision, FailedAttempt, Perform, Refuse, Replay, Wait
from django_rivet.engine.durations import later, seconds
from django_rivet.engine.entries import Entry, EntryStatus, ErrorInfo, FailureKind
from django_rivet.engine.events import StepFailed
from django_rivet.engine.exceptions import (
    CriticalError,
    OutputNotSerializableError,
    RetryAfter,
    RollbackError,
    StepInterruptedError,
    StepTimeoutError,
)
from django_rivet.engine.failures import describe, step_error
from django_rivet.engine.options import RetryIf, StepOptions
from django_rivet.engine.retry import delay_after


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a step has to know of the pass."""

    now: datetime
    takeovers: int
    """How many workers in a row died at this point; 0 once this pass has got anywhere."""
    max_takeovers: int
    workflow_id: str


def decide(entry: Entry, options: StepOptions, around: Circumstances) -> Decision:
    """``entry`` is the record; a step that has none comes with a fresh one, status ``pending``."""
    if entry.status is EntryStatus.COMPLETED:
        assert entry.output is not None
        return Replay(codec.decode_record(entry.output, f"the record of step {entry.name!r}"))
    if entry.status is EntryStatus.FAILED:
        return Refuse(step_error(entry))
    if entry.status is EntryStatus.RETRYING:
        if entry.charged > options.max_retries:
            # The limit was lowered meanwhile: nothing runs, and nothing is told twice.
            last = replace(entry, status=EntryStatus.FAILED, failure_kind=FailureKind.EXHAUSTED, due_at=None)
            return Refuse(step_error(last), record=last)
        if entry.due_at is not None and entry.due_at > around.now:
            return Wait(entry.due_at)
    began_before = entry.status is EntryStatus.RUNNING
    if began_before and options.at_most_once:
        return _interrupted(entry, options, around, "its worker died, and it may run only once")
    if around.takeovers >= around.max_takeovers:
        return _interrupted(entry, options, around, f"{around.takeovers} workers in a row died at this point")
    lost = 1 if began_before else around.takeovers
    # A start on record is counted as an attempt already; other attempts that died left no trace but the takeover.
    known = 0 if began_before else lost
    return Perform(
        replace(
            entry,
            attempts=entry.attempts + known + 1,
            interruptions=entry.interruptions + lost,
            started_at=entry.started_at or around.now,
            due_at=None,
        )
    )


def succeeded(entry: Entry, value: Any, seq: int, now: datetime, max_bytes: int) -> Entry:
    """The record of a body that returned; ``OutputNotSerializableError`` where its value cannot be stored."""
    output = codec.encode(value)
    size = len(output.encode())
    if size > max_bytes:
        raise OutputNotSerializableError(
            f"the output of step {entry.name!r} has {size} bytes; MAX_OUTPUT_BYTES allows {max_bytes}: "
            "store it elsewhere and return a reference"
        )
    return replace(
        entry,
        status=EntryStatus.COMPLETED,
        seq=seq,
        output=output,
        error=None,
        failure_kind=None,
        due_at=None,
        ended_at=now,
    )


def failed(
    entry: Entry,
    error: BaseException,
    options: StepOptions,
    *,
    seq: int,
    now: datetime,
    chance: float,
    workflow_id: str,
) -> FailedAttempt:
    """The record and the event of an attempt that raised ``error`` and ended ``now``."""
    info = describe(error)
    kind = _terminal_kind(error, options)
    if kind is None and entry.charged > options.max_retries:
        kind = FailureKind.EXHAUSTED
    delay = retry_at = None
    if kind is None:
        delay = _delay(entry, error, options, chance)
        retry_at = later(now, delay, f"the retry of step {entry.name!r}")
    record = replace(
        entry,
        status=EntryStatus.FAILED if kind else EntryStatus.RETRYING,
        seq=seq,
        output=None,
        error=info,
        failure_kind=kind,
        due_at=retry_at,
        ended_at=now,
    )
    return FailedAttempt(record, _event(record, options, delay, workflow_id))


logger = logging.getLogger("django_rivet.workflow")

# Below: how it is done ---------------------------------------------------------------------------


def _interrupted(entry: Entry, options: StepOptions, around: Circumstances, why: str) -> Refuse:
    error = StepInterruptedError(f"step {entry.name!r} was interrupted: {why}; its effect is unknown")
    record = replace(
        entry,
        status=EntryStatus.FAILED,
        failure_kind=FailureKind.INTERRUPTED,
        error=ErrorInfo(type(error).__name__, str(error)),
        due_at=None,
        started_at=entry.started_at or around.now,
        ended_at=around.now,
    )
    return Refuse(step_error(record), FailedAttempt(record, _event(record, options, None, around.workflow_id)))


def _terminal_kind(error: BaseException, options: StepOptions) -> FailureKind | None:
    """Why no retry can help, whatever is left of them."""
    if isinstance(error, StepTimeoutError):
        return None if options.retry_on_timeout else FailureKind.TIMEOUT
    if isinstance(error, RollbackError):
        return FailureKind.ROLLBACK
    if isinstance(error, StepInterruptedError):
        return FailureKind.INTERRUPTED
    if isinstance(error, (CriticalError, OutputNotSerializableError)):
        return FailureKind.CRITICAL
    return None if _is_retried(error, options.retry_if) else FailureKind.CRITICAL


def _is_retried(error: BaseException, retry_if: RetryIf) -> bool:
    if retry_if is None or isinstance(error, (RetryAfter, StepTimeoutError)):
        return True
    if isinstance(retry_if, (type, tuple)):
        return isinstance(error, retry_if)
    try:
        return bool(retry_if(error))
    except Exception:
        logger.exception("the retry_if of a step raised; the step is not retried")
        return False


def _delay(entry: Entry, error: BaseException, options: StepOptions, chance: float) -> float:
    return delay_after(
        error,
        entry.charged,
        base=seconds(options.retry_backoff_base, "retry_backoff_base"),
        maximum=seconds(options.retry_backoff_max, "retry_backoff_max"),
        jitter=options.retry_jitter,
        chance=chance,
    )


def _event(record: Entry, options: StepOptions, delay: float | None, workflow_id: str) -> StepFailed:
    assert record.error is not None
    return StepFailed(
        workflow_id=workflow_id,
        error=record.error,
        step_name=record.name,
        attempt=record.charged,
        max_retries=options.max_retries,
        remaining_retries=max(0, options.max_retries - (record.charged - 1)),
        will_retry=delay is not None,
        retry_delay=delay,
        retry_at=record.due_at,
    )
