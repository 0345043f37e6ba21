"""Walk the workflow function once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.context import Context
from django_rivet.engine.current import running_workflow
from django_rivet.engine.entries import EntryStatus, Kind
from django_rivet.engine.exceptions import HistoryDivergedError, RunTimeoutError, WorkflowUsageError
from django_rivet.engine.failures import describe, origin_of, paths_through
from django_rivet.engine.history import History
from django_rivet.engine.outcome import Completed, Diverged, Failed, Outcome, Suspended
from django_rivet.engine.ports import Host
from django_rivet.engine.suspend import RunTimedOut, Unwind
from django_rivet.engine.undo import Scope
from django_rivet.engine.walk import Walk


def run(workflow: Callable[[Context], Any], host: Host, history: History) -> Outcome:
    """One pass. Errors of the world around (the database, a dying process) are raised, not returned."""
    walk = Walk(host, history)
    root = Context(walk, Scope(), "the workflow")
    try:
        with running_workflow(walk):
            value = workflow(root)
            walk.refuse_unwinding()
            root.close_left_loop()
            output = codec.encode(value)
            root.finish()
    except BaseException as error:
        # What the engine stopped for holds, whatever the workflow made of it.
        return _outcome(walk.unwinding or error, history)
    finally:
        walk.is_over = True
    return Completed(output)


# Below: how it is done ---------------------------------------------------------------------------


def _outcome(reason: BaseException, history: History) -> Outcome:
    through = paths_through(reason)
    if isinstance(reason, RunTimedOut):
        # Out of reach for workflow code until here; from here on it is a failure like others.
        through = reason.under_way or history.steps_under_way()
        reason = RunTimeoutError(reason.run_timeout, _where(history))
    if isinstance(reason, Unwind):
        return Suspended(reason)
    if isinstance(reason, HistoryDivergedError):
        return Diverged(describe(reason))
    if not isinstance(reason, Exception):
        raise reason
    for entry in list(history.entries.values()):
        if entry.kind is Kind.LOOP and entry.status is EntryStatus.RUNNING:
            history.note(replace(entry, status=EntryStatus.FAILED))
    return Failed(
        describe(reason),
        through,
        is_reported=_was_reported(reason),
        compensates=not isinstance(reason, WorkflowUsageError),
    )


def _where(history: History) -> str:
    if not history.reached:
        return "before its first entry"
    entry = history.entries.get(history.reached)
    is_over = entry is not None and entry.status in (EntryStatus.COMPLETED, EntryStatus.FAILED)
    return f"{'behind' if is_over else 'at'} {history.reached!r}"


def _was_reported(error: BaseException) -> bool:
    """A step's failure was reported when it was recorded; an error that wraps it is another one."""
    origin = origin_of(error)
    return origin is not None and origin.source == "step"
