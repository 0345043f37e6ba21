"""The one task. Its message is a hint: lost, doubled or late, the database says what is due."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from celery import shared_task
from django.db import connections

from django_rivet.conf import get_settings
from django_rivet.models import Actor
from django_rivet.runtime import shutdown
from django_rivet.runtime.bell import LAST_SECONDS, TASK, drain, ring, ring_now
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import this_worker
from django_rivet.store.database import alias


@shared_task(name=TASK, ignore_result=True)
def drive(actor_id: str) -> None:
    """Drive an actor until it waits, or until its slice is over; then it goes behind the others, unless the broker is
    away, and with it the others' hints.

    A worker that is told to stop leaves it to another one at the next boundary.
    """
    instance = uuid.UUID(actor_id)
    # Celery closes connections around each task, unless it is told to keep them; then a dead one would be kept too.
    if not connections[alias()].in_atomic_block:
        connections[alias()].close_if_unusable_or_obsolete()
    worker = this_worker()
    slice_ends = time.monotonic() + get_settings().SLICE_SECONDS
    try:
        # Whatever came in while it was driven, with a hint that found it taken, is seen by another look.
        while not shutdown.is_requested() and drive_once(instance, worker):
            if time.monotonic() >= slice_ends:
                if _ring(instance, ring_now):
                    return
                # Nobody could be told: left now, it would lie there until the broker is back.
                slice_ends = time.monotonic() + get_settings().SLICE_SECONDS
        if shutdown.is_requested():
            _ring(instance, ring)
            drain(LAST_SECONDS)  # this process may end before its bell has rung
    except DatabaseFailedError:
        return  # it is logged, and the sweeper comes back to it


def _ring(actor_id: uuid.UUID, how: Callable[[uuid.UUID, str], object]) -> bool:
    """Whether there is somebody who knows of it, or nothing to know of any more."""
    row = Actor.objects.using(alias()).filter(pk=actor_id).only("type").first()
    return row is None or how(actor_id, row.type) is not False
