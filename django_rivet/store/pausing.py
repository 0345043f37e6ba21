"""Pause, resume and wake: when a workflow goes on."""

from __future__ import annotations

import uuid

from django.db.models import Case, F, Value, When

from django_rivet.models import WorkflowRun
from django_rivet.store.database import database_now
from django_rivet.store.lifecycle import STANDS_STILL, Verdict, is_driven, locked, unpause, update

Status = WorkflowRun.Status


def pause(actor_id: uuid.UUID) -> Verdict:
    """At once where nobody drives the actor; else when the workflow asks for its next entry or turn.

    Not done where it stands still anyway. What it waits for, timers included, is kept.
    """
    run = locked(actor_id)
    now = database_now()
    if run.status in STANDS_STILL:
        return Verdict(False)
    if run.status == Status.PAUSED:
        return Verdict(True)
    before = Status.SLEEPING if run.status == Status.RUNNING else run.status
    if is_driven(run, now):
        update(run, pausing=True)
    elif run.holder is not None:
        # Its worker is dead, or frozen: that counts as a takeover, and it may not write when it wakes up.
        update(
            run,
            status=Status.PAUSED,
            paused_from=before,
            pausing=False,
            holder=None,
            lease_until=None,
            due_at=now,
            cut_off=True,
            takeovers=Case(When(leaving=True, then=F("takeovers")), default=F("takeovers") + Value(1)),
            epoch=F("epoch") + 1,
        )
    else:
        update(run, status=Status.PAUSED, paused_from=before, pausing=False)
    return Verdict(True)


def resume(actor_id: uuid.UUID) -> Verdict:
    """It stands as before it was paused, and what became due meanwhile is due now. Not done where it is not paused."""
    run = locked(actor_id)
    if run.status != Status.PAUSED and not run.pausing:
        return Verdict(False)
    was_paused = run.status == Status.PAUSED
    unpause(run)
    return Verdict(True, is_due=was_paused)


def wake(actor_id: uuid.UUID) -> Verdict:
    """It is due now: a worker looks at it, and a wait that is not over goes on with the due time that it had.

    Nothing to do where a worker looks at it already. Not done where it is paused, stands still, or has no workflow.
    """
    run = locked(actor_id)
    now = database_now()
    # An actor without a workflow was never claimed, and one with a workflow sleeps only after a drive.
    has_no_workflow = run.status == Status.SLEEPING and run.epoch == 0
    if run.status in (*STANDS_STILL, Status.PAUSED) or has_no_workflow:
        return Verdict(False)
    if is_driven(run, now):
        return Verdict(True)
    if run.due_at is None or run.due_at > now:
        update(run, due_at=now)
    return Verdict(True, is_due=True)
