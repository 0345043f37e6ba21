"""The one task. Its message is a hint: lost, doubled or late, the database says what is due."""

from __future__ import annotations

import time
import uuid

from celery import shared_task
from django.db import connections

from django_rivet.conf import get_settings
from django_rivet.models import WorkflowRun
from django_rivet.runtime import shutdown
from django_rivet.runtime.bell import TASK, ring
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import this_worker
from django_rivet.store.database import alias
from django_rivet.store.runs import Hint


@shared_task(name=TASK, ignore_result=True)
def drive(actor_id: str, epoch: int | None = None, message: int | None = None) -> None:
    """Drive an actor until it waits, or until its slice is over; then it goes behind the others.

    ``epoch`` and ``message`` are those of ``store.runs.Hint``. A worker that is told to stop leaves it to another one
    at the next boundary.
    """
    instance = uuid.UUID(actor_id)
    # Celery closes connections around each task, unless it is told to keep them; then a dead one would be kept too.
    if not connections[alias()].in_atomic_block:
        connections[alias()].close_if_unusable_or_obsolete()
    worker = this_worker()
    slice_ends = time.monotonic() + get_settings().SLICE_SECONDS
    try:
        # Whatever came in while it was driven, with a hint that found it taken, is seen by another look.
        hint = Hint(epoch, message)
        while not shutdown.is_requested() and drive_once(instance, worker, hint):
            hint = Hint()
            if time.monotonic() >= slice_ends:
                _ring(instance)
                return
        if shutdown.is_requested():
            _ring(instance)
    except DatabaseFailedError:
        return  # it is logged, and the sweeper comes back to it


def _ring(actor_id: uuid.UUID) -> None:
    row = WorkflowRun.objects.using(alias()).filter(pk=actor_id).values_list("actor__type", "epoch").first()
    if row is not None:
        type_name, epoch = row
        ring(actor_id, type_name, Hint(epoch))
