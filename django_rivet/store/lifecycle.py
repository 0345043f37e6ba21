"""What operators do to a workflow from outside a drive: cancel, recover, and what all of that is made of."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.engine.entries import Compensation, EntryStatus, Kind, UndoStatus
from django_rivet.engine.notes import Changes
from django_rivet.engine.recovery import Recovery, after_failure, handler_again
from django_rivet.models import Compensation as CompensationRow
from django_rivet.models import Entry as EntryRow
from django_rivet.models import WorkflowRun
from django_rivet.store import journal
from django_rivet.store.database import alias, database_now, marks, rows
from django_rivet.store.journal import Lease, load_history, write_changes
from django_rivet.store.records import COMPENSATION_COLUMNS, compensation_from
from django_rivet.store.run_errors import load_run_error

Status = WorkflowRun.Status
Request = WorkflowRun.Request

FINISHED = (Status.COMPLETED, Status.CANCELLED)

STANDS_STILL = (*FINISHED, Status.FAILED, Status.ROLLBACK_FAILED)
"""Nothing happens to it by itself any more; of those that are not finished an operator may make it go on."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an operator's request."""

    done: bool
    """False: the status did not allow it, and nothing was changed."""
    is_due: bool = False
    """Whether a worker has something to do now."""


def cancel(actor_id: uuid.UUID, *, rollback: bool) -> Verdict:
    """At once where nobody drives the actor; else when the workflow asks for its next entry or turn."""
    run = locked(actor_id)
    now = database_now()
    if run.status in FINISHED:
        return Verdict(False)
    was_paused = run.status == Status.PAUSED
    unpause(run)
    # A rollback that was asked for is not taken back by a plain cancellation.
    rollback = rollback or run.request == Request.CANCEL_ROLLBACK
    wanted = Request.CANCEL_ROLLBACK if rollback else Request.CANCEL
    if is_driven(run, now):
        update(run, request=wanted)
        return Verdict(True)
    if run.status == Status.ROLLING_BACK:
        # It goes on when it would have gone on, and then ends as cancelled.
        update(run, request=wanted)
        return Verdict(True, is_due=was_paused)
    if _is_undoing_block(run) or (rollback and _may_owe(run)):
        if run.status in (Status.ROLLBACK_FAILED, Status.FAILED):
            _try_handlers_again(run)
            update(run, status=Status.ROLLING_BACK, error=None)
        update(run, request=wanted, due_at=now, waiting=None)
        return Verdict(True, is_due=True)
    update(
        run,
        status=Status.CANCELLED,
        request=Request.NONE,
        due_at=None,
        waiting=None,
        error=None,
        holder=None,
        lease_until=None,
        epoch=F("epoch") + 1,
    )
    return Verdict(True)


def recover(actor_id: uuid.UUID) -> Verdict:
    """Fresh attempts after ``failed`` or ``rollback_failed``; anything else is left as it is."""
    run = locked(actor_id)
    if run.status == Status.ROLLBACK_FAILED:
        _try_handlers_again(run)
        go_on_undoing(run)
        return Verdict(True, is_due=True)
    if run.status != Status.FAILED:
        return Verdict(False)
    history = load_history(actor_id)
    error = load_run_error(run.error)
    through = error.through if error is not None else frozenset()
    apply(run, after_failure(history.entries, _undone(actor_id), through))
    update(
        run,
        status=Status.SLEEPING,
        error=None,
        output=None,
        due_at=database_now(),
        started_at=None,
        takeovers=0,
        generation=F("generation") + 1,
        epoch=F("epoch") + 1,
    )
    return Verdict(True, is_due=True)


# What operations are made of ---------------------------------------------------------------------


def locked(actor_id: uuid.UUID) -> WorkflowRun:
    """The run, which no worker claims or commits to until this transaction ends; ``ActorNotFoundError``."""
    run = WorkflowRun.objects.using(alias()).select_for_update().filter(pk=actor_id).first()
    if run is None:
        raise ActorNotFoundError(f"actor {actor_id} does not exist any more")
    return run


def is_driven(run: WorkflowRun, now: datetime) -> bool:
    """Whether a worker holds it whose lease is not over."""
    return run.holder is not None and run.lease_until is not None and run.lease_until > now


def update(run: WorkflowRun, **values: object) -> None:
    WorkflowRun.objects.using(alias()).filter(pk=run.pk).update(**values, updated_at=database_now())


def unpause(run: WorkflowRun) -> None:
    """As if it had never been paused; nothing where it was not."""
    if run.status == Status.PAUSED:
        run.status = run.paused_from
        update(run, status=run.status, paused_from="", pausing=False)
    elif run.pausing:
        update(run, pausing=False)


def go_on_undoing(run: WorkflowRun) -> None:
    """After ``rollback_failed``: the rollback that stood still is due."""
    error = load_run_error(run.error)
    if run.request:
        # What stood still was the rollback of a cancellation.
        update(run, status=Status.ROLLING_BACK, error=None, due_at=database_now())
    elif error is not None and error.in_block:
        update(run, status=Status.SLEEPING, error=None, due_at=database_now(), started_at=None)
    else:
        update(run, status=Status.ROLLING_BACK, due_at=database_now())


def lease_of(run: WorkflowRun) -> Lease:
    """For records that are written under the run's lock, which keeps workers away better than any lease."""
    return Lease(run.pk, run.epoch, 0, run.generation)


def apply(run: WorkflowRun, recovery: Recovery) -> None:
    """Under the run's lock: what is replaced or removed becomes the end of its generation, and the next one begins."""
    live = EntryRow.objects.using(alias()).filter(actor_id=run.pk, retired__isnull=True)
    replaced = [entry.path for entry in recovery.replaced]
    for paths in journal.batches(dict.fromkeys([*replaced, *recovery.removed])):
        live.filter(path__in=paths).update(retired=run.generation)
    for paths in journal.batches(recovery.unbound):
        live.filter(path__in=paths).update(binds=False)
    lease = Lease(run.pk, run.epoch, 0, run.generation + 1)
    journal.write_changes(lease, Changes(entries=recovery.replaced))


# Below: how it is done ---------------------------------------------------------------------------


def _is_undoing_block(run: WorkflowRun) -> bool:
    blocks = EntryRow.objects.using(alias()).filter(actor_id=run.pk, retired__isnull=True, kind=Kind.BLOCK)
    is_alive = run.status in (Status.RUNNING, Status.SLEEPING)
    return is_alive and blocks.filter(status=EntryStatus.ROLLING_BACK).exists()


def _may_owe(run: WorkflowRun) -> bool:
    """Whether a rollback has to be looked into. A failed workflow was rolled back, but for usage errors."""
    if run.status == Status.PENDING:
        return False
    if run.status == Status.FAILED:
        return bool(load_history(run.pk).compensations)
    return True


def _try_handlers_again(run: WorkflowRun) -> None:
    failed = [c for c in load_history(run.pk).compensations.values() if c.status is UndoStatus.FAILED]
    write_changes(lease_of(run), Changes(compensations=tuple(handler_again(c) for c in failed)))


def _undone(actor_id: uuid.UUID) -> list[Compensation]:
    # A skipped one was not undone: what its step did stands, and must not be done a second time.
    done = [str(s) for s in (UndoStatus.COMPLETED, UndoStatus.CONFIRMED)]
    found = rows(
        f"SELECT {', '.join(COMPENSATION_COLUMNS)} FROM {CompensationRow._meta.db_table} "  # noqa: S608 - constants
        f"WHERE actor_id = %s AND status IN ({marks(len(done))})",
        [actor_id, *done],
    )
    return [compensation_from(values) for values in found]
