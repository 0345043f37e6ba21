"""Rollback handlers that are out of attempts: what an operator has to decide about."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from django_rivet.admin import words
from django_rivet.admin.text import Excerpt, excerpt, read_error, visible
from django_rivet.engine.entries import UndoStatus
from django_rivet.models import Compensation, WorkflowRun
from django_rivet.store.database import alias

MAX_HANDLERS = 20
MAX_ERROR = 400


@dataclass(frozen=True, slots=True)
class FailedHandler:
    """One of them."""

    id: int
    step: str
    """The path of its step."""
    handler: str
    attempts: str
    error: Excerpt | None
    seq: int


def failed_handlers(actor_id: uuid.UUID) -> list[FailedHandler]:
    """The newest step in front, which is the order of the rollback; ``MAX_HANDLERS`` at most."""
    return [_handler(row) for row in _failed(actor_id).order_by("-seq")[:MAX_HANDLERS]]


def failed_handler(actor_id: uuid.UUID, handler_id: int) -> FailedHandler | None:
    """None where it has not failed, or is no longer so."""
    row = _failed(actor_id).filter(pk=handler_id).first()
    return _handler(row) if row is not None else None


def path_of_handler(actor_id: uuid.UUID, handler_id: int) -> str:
    """Of its step, whatever became of the handler; empty where there is no such handler."""
    found = Compensation.objects.using(alias()).filter(actor_id=actor_id, pk=handler_id)
    return found.values_list("path", flat=True).first() or ""


def seen_of_handler(run: WorkflowRun, path: str) -> str:
    """Which failure of that handler an operator looked at: another one has another end."""
    ended = _failed(run.pk).filter(path=path).order_by("-run").values_list("ended_at", flat=True).first()
    return ended.isoformat() if ended is not None else "not failed"


# Below: how it is done ---------------------------------------------------------------------------


def _failed(actor_id: uuid.UUID) -> QuerySet[Compensation]:
    found = Compensation.objects.using(alias()).filter(actor_id=actor_id, status=UndoStatus.FAILED)
    return found.defer("args", "output")


def _handler(row: Any) -> FailedHandler:
    error = read_error(row.error)
    return FailedHandler(
        id=row.pk,
        step=visible(row.path),
        handler=visible(row.handler),
        attempts=words.attempts(row.attempts),
        error=excerpt(str(error), MAX_ERROR) if error is not None else None,
        seq=row.seq,
    )
