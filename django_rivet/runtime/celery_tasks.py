"""The one task. Its message is a hint: lost, doubled or late, the database says what is due."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from celery import Celery, Task, shared_task
from celery.signals import task_postrun, task_prerun, task_received
from django.db import connections

from django_rivet.conf import get_settings
from django_rivet.models import WorkflowRun
from django_rivet.runtime import connecting, shutdown
from django_rivet.runtime.bell import LAST_SECONDS, TASK, drain, ring, ring_now
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import this_worker
from django_rivet.store.database import alias
from django_rivet.store.runs import Hint

REUSE = "CELERY_DB_REUSE_MAX"


@shared_task(name=TASK, ignore_result=True)
def drive(actor_id: str, epoch: int | None = None, message: int | None = None) -> None:
    """Drive an actor until it waits, or until its slice is over; then it goes behind the others, unless the broker is
    away, and with it the others' hints.

    ``epoch`` and ``message`` are those of ``store.runs.Hint``. A worker that is told to stop leaves it to another one
    at the next boundary.
    """
    instance = uuid.UUID(actor_id)
    connecting.make_ready()
    worker = this_worker()
    slice_ends = time.monotonic() + get_settings().SLICE_SECONDS
    try:
        # Whatever came in while it was driven, with a hint that found it taken, is seen by another look.
        hint = Hint(epoch, message)
        while not shutdown.is_requested() and drive_once(instance, replace(worker, slice_ends=slice_ends), hint):
            hint = Hint()
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


def keep_connections(app: Celery, pool: str) -> None:
    """Let drives reuse their connection, where Celery would close it before and after each.

    Other tasks find none that is older than they are, as Celery has it. Nothing is changed where the project has set
    ``CELERY_DB_REUSE_MAX``, nor where threads share psycopg's pool: a connection goes back to it after each drive.
    """
    if app.conf.get(REUSE) or (pool == "threads" and connecting.psycopg_pool()):
        return
    app.conf[REUSE] = sys.maxsize
    task_prerun.connect(_close_for_others, weak=False, dispatch_uid="django_rivet.connections")
    task_postrun.connect(_close_for_others, weak=False, dispatch_uid="django_rivet.connections")


# Below: how it is done ---------------------------------------------------------------------------


@task_received.connect(weak=False, dispatch_uid="django_rivet.passing_on")
def _pass_on(request: Any, **kwargs: Any) -> None:
    """A worker that was told to stop may be the next in the broker's line, also for the hints of what it hands over.

    It would give them back when it has ended.
    """
    if request.name == TASK and shutdown.is_requested():
        _ring(uuid.UUID(request.args[0]), ring)
        connections[alias()].close()


def _close_for_others(sender: Task[Any, Any], **kwargs: Any) -> None:
    if sender.name != TASK and not sender.request.is_eager:
        for each in connections.all(initialized_only=True):
            each.close()


def _ring(actor_id: uuid.UUID, how: Callable[[uuid.UUID, str, Hint], object]) -> bool:
    """Whether there is somebody who knows of it, or nothing to know of any more."""
    row = WorkflowRun.objects.using(alias()).filter(pk=actor_id).values_list("actor__type", "epoch").first()
    if row is None:
        return True
    type_name, epoch = row
    return how(actor_id, type_name, Hint(epoch)) is not False
