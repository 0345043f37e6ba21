"""What operators decide about a rollback handler that is out of attempts: retry it, skip it, mark it done by hand."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime

from django.db.models import F

from django_rivet.actors.exceptions import RollbackNotFailedError, WorkflowFinishedError, WorkflowInFlightError
from django_rivet.engine.compensation import Stopped, next_undo
from django_rivet.engine.entries import Compensation, EntryStatus, UndoStatus
from django_rivet.engine.history import History
from django_rivet.engine.location import ROOT
from django_rivet.engine.notes import Changes
from django_rivet.engine.recovery import handler_again
from django_rivet.engine.undo import owed_under
from django_rivet.models import Compensation as CompensationRow
from django_rivet.models import WorkflowRun
from django_rivet.store.database import alias, database_now
from django_rivet.store.journal import load_history, write_changes
from django_rivet.store.lifecycle import FINISHED, Verdict, go_on_undoing, is_driven, lease_of, locked, update
from django_rivet.store.records import COMPENSATION_COLUMNS, compensation_from

Status = WorkflowRun.Status

_OVER = (*FINISHED, Status.FAILED)


def retry(actor_id: uuid.UUID, path: str) -> Verdict:
    """Fresh attempts, and the rollback goes on with it. Not done where it is going to be run anyway.

    ``RollbackNotFailedError``, ``WorkflowInFlightError``, and ``WorkflowFinishedError`` where no rollback is under way.
    """
    run = locked(actor_id)
    found = _newest(run, path)
    if found.status is UndoStatus.OWED:
        return Verdict(False)
    now = database_now()
    _refuse(run, found, now)
    if run.status in _OVER:
        raise WorkflowFinishedError(
            f"the workflow of {actor_id} is {run.status}, and its rollback is over: undo step {path!r} by hand, "
            "and mark it done"
        )
    return _decide(run, handler_again(found), now)


def skip(actor_id: uuid.UUID, path: str, *, reason: str, by: str) -> Verdict:
    """What the step did will not be undone; the rollback goes on with the older ones. Not done a second time."""
    return _set_aside(actor_id, path, UndoStatus.SKIPPED, reason, by)


def confirm(actor_id: uuid.UUID, path: str, *, note: str, by: str) -> Verdict:
    """Somebody undid it by hand; the rollback goes on with the older ones. Not done a second time."""
    return _set_aside(actor_id, path, UndoStatus.CONFIRMED, note, by)


# Below: how it is done ---------------------------------------------------------------------------


def _set_aside(actor_id: uuid.UUID, path: str, status: UndoStatus, note: str, by: str) -> Verdict:
    run = locked(actor_id)
    found = _newest(run, path)
    if found.status is status:
        return Verdict(False)
    now = database_now()
    _refuse(run, found, now)
    # The error stays: it is why somebody had to decide.
    return _decide(run, replace(found, status=status, note=note, decided_by=by or None, ended_at=now), now)


def _newest(run: WorkflowRun, path: str) -> Compensation:
    rows = CompensationRow.objects.using(alias()).filter(actor_id=run.pk, path=path)
    values = rows.order_by("-run").values_list(*COMPENSATION_COLUMNS).first()
    if values is None:
        raise RollbackNotFailedError(f"step {path!r} of {run.pk} owes no rollback handler; {_those_that_failed(run)}")
    return compensation_from(values)


def _refuse(run: WorkflowRun, found: Compensation, now: datetime) -> None:
    if found.status is not UndoStatus.FAILED:
        raise RollbackNotFailedError(
            f"the rollback of step {found.path!r} of {run.pk} has not failed, it is {found.status}; "
            f"{_those_that_failed(run)}"
        )
    if is_driven(run, now):
        raise WorkflowInFlightError(
            f"a worker drives {run.pk} at this moment: decide about the rollback of step {found.path!r} when it waits, "
            "or pause the actor first"
        )


def _those_that_failed(run: WorkflowRun) -> str:
    failed = CompensationRow.objects.using(alias()).filter(actor_id=run.pk, status=UndoStatus.FAILED)
    paths = ", ".join(repr(path) for path in failed.order_by("-seq").values_list("path", flat=True)[:5])
    return f"those that failed are {paths}" if paths else "none of them has failed"


def _decide(run: WorkflowRun, decided: Compensation, now: datetime) -> Verdict:
    write_changes(lease_of(run), Changes(compensations=(decided,)))
    if run.holder is not None:
        # Its worker is dead, or frozen: then it must not write down what it knew before.
        update(run, epoch=F("epoch") + 1)
    if run.status in _OVER or run.status == Status.PAUSED:
        return Verdict(True)
    if run.status != Status.ROLLBACK_FAILED:
        update(run, due_at=now)
        return Verdict(True, is_due=True)
    if _stands_still(load_history(run.pk), now):
        return Verdict(True)
    go_on_undoing(run)
    return Verdict(True, is_due=True)


def _stands_still(history: History, now: datetime) -> bool:
    """Whether the rollback would stop at once, at another handler that has failed."""
    blocks = [e.path for e in history.entries.values() if e.status is EntryStatus.ROLLING_BACK]
    owed = owed_under(history, blocks[0] if blocks else ROOT)
    return bool(owed) and isinstance(next_undo(owed, now), Stopped)
