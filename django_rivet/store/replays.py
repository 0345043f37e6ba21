"""``replay_from()``: history is set aside, and the workflow runs again from there."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db.models import F

from django_rivet.actors.exceptions import NotReplayableError, UnknownEntryError, WorkflowInFlightError
from django_rivet.engine.entries import Compensation, Entry, EntryStatus, Kind
from django_rivet.engine.exceptions import HistoryDivergedError
from django_rivet.engine.history import History
from django_rivet.engine.notes import Changes
from django_rivet.engine.replaying import Rewind, forgotten_iteration, rewind
from django_rivet.models import Compensation as CompensationRow
from django_rivet.models import WorkflowRun
from django_rivet.store import mailbox
from django_rivet.store.database import alias, database_now
from django_rivet.store.journal import load_history, write_changes
from django_rivet.store.lifecycle import Verdict, apply, is_driven, lease_of, locked, update
from django_rivet.store.records import COMPENSATION_COLUMNS, compensation_from

Status = WorkflowRun.Status

_ROLLS_BACK = (Status.ROLLING_BACK, Status.ROLLBACK_FAILED)


def replay(actor_id: uuid.UUID, path: str | None) -> Verdict:
    """From the step at ``path`` on, or from the beginning; always done where nothing is raised.

    ``WorkflowInFlightError``, ``NotReplayableError``, ``UnknownEntryError``.
    """
    run = locked(actor_id)
    now = database_now()
    _refuse_status(run, now)
    history = _readable_history(run)
    if any(e.status is EntryStatus.ROLLING_BACK for e in history.entries.values()):
        raise _not_over(run)
    if path is not None:
        _refuse_path(run, history, path)
    rewound = _rewound(run, history, path, now)
    apply(run, rewound.recovery)
    write_changes(lease_of(run), Changes(compensations=rewound.compensations))
    mailbox.put_back(actor_id, rewound.messages)
    stays_paused = run.status == Status.PAUSED or run.pausing
    update(
        run,
        status=Status.PAUSED if stays_paused else Status.SLEEPING,
        paused_from=Status.SLEEPING if stays_paused else "",
        pausing=False,
        output=None,
        error=None,
        waiting=None,
        due_at=now,
        started_at=None,
        takeovers=0,
        # What a dead worker had noted came after what is kept: it is not missed.
        cut_off=False,
        leaving=False,
        holder=None,
        lease_until=None,
        generation=F("generation") + 1,
        epoch=F("epoch") + 1,
    )
    return Verdict(True, is_due=not stays_paused)


# Below: how it is done ---------------------------------------------------------------------------


def _refuse_status(run: WorkflowRun, now: datetime) -> None:
    if is_driven(run, now):
        raise WorkflowInFlightError(
            f"a worker drives {run.pk} at this moment: replay it when it waits, or pause the actor first"
        )
    if run.status == Status.CANCELLED:
        raise NotReplayableError(f"the workflow of {run.pk} is cancelled, and stays so: create another actor instead")
    if run.status in _ROLLS_BACK or run.paused_from in _ROLLS_BACK:
        raise _not_over(run)
    if run.request:
        raise NotReplayableError(f"the workflow of {run.pk} is about to be cancelled, as somebody has asked for")
    # An actor without a workflow was never claimed, and one with a workflow sleeps only after a drive.
    if run.status == Status.SLEEPING and run.epoch == 0:
        raise NotReplayableError(f"{run.pk} has no workflow, so there is nothing to replay")


def _not_over(run: WorkflowRun) -> NotReplayableError:
    if run.status == Status.ROLLBACK_FAILED:
        return NotReplayableError(
            f"the rollback of {run.pk} stands still at a handler that is out of attempts: recover(), or retry, skip or "
            "confirm that handler, and replay it when the rollback is over"
        )
    return NotReplayableError(f"the rollback of {run.pk} is not over: replay it when it is")


def _readable_history(run: WorkflowRun) -> History:
    try:
        return load_history(run.pk)
    except ValueError as error:
        raise _unreadable(run, error) from error


def _rewound(run: WorkflowRun, history: History, path: str | None, now: datetime) -> Rewind:
    try:
        return rewind(history.entries, _compensations(run.pk), path, now)
    except (HistoryDivergedError, ValueError) as error:
        raise _unreadable(run, error) from error


def _unreadable(run: WorkflowRun, error: Exception) -> NotReplayableError:
    return NotReplayableError(f"the history of {run.pk} cannot be read: {error}")


def _refuse_path(run: WorkflowRun, history: History, path: str) -> None:
    entry = history.entries.get(path)
    if entry is None or not entry.seq:
        raise UnknownEntryError(f"{path!r} is not in the history of {run.pk}; {_known(history)}")
    if entry.kind is not Kind.STEP:
        raise UnknownEntryError(
            f"{path!r} of {run.pk} is no step but of kind '{entry.kind}': name the step to begin with"
        )
    forgotten = forgotten_iteration(history.entries, path)
    if forgotten is not None:
        raise UnknownEntryError(
            f"the iteration {forgotten!r} of {run.pk} cannot be entered again, since the state that it began with is "
            "forgotten: replay from a step in front of its loop"
        )


def _known(history: History) -> str:
    steps = sorted((e for e in history.entries.values() if _is_step(e)), key=lambda e: e.seq, reverse=True)
    paths = ", ".join(repr(e.path) for e in steps[:5])
    return f"its last steps are {paths}" if paths else "it has no step"


def _is_step(entry: Entry) -> bool:
    return entry.kind is Kind.STEP and entry.seq > 0


def _compensations(actor_id: uuid.UUID) -> list[Compensation]:
    found = CompensationRow.objects.using(alias()).filter(actor_id=actor_id)
    return [compensation_from(values) for values in found.values_list(*COMPENSATION_COLUMNS)]
