"""One look at an actor."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.engine import codec
from django_rivet.engine.entries import ErrorInfo
from django_rivet.models import Actor as ActorRow
from django_rivet.store.database import alias
from django_rivet.store.run_errors import load_run_error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is committed, all of it from one statement."""

    status: str
    state: Any
    error: ErrorInfo | None
    output: Any
    waiting_for: list[str] | None
    """Queues it waits for; empty: any; None: it waits for no message."""
    wake_at: datetime | None
    """When it goes on by itself."""
    generation: int


def take_snapshot(actor_class: type[Actor[Any]], actor_id: uuid.UUID) -> Snapshot:
    row = ActorRow.objects.using(alias()).select_related("run").filter(pk=actor_id).first()
    if row is None:
        raise ActorNotFoundError(f"{actor_class.definition.type_name} {actor_id} does not exist any more")
    run = row.run
    error = load_run_error(run.error)
    return Snapshot(
        status=str(run.status),
        state=actor_class.definition.state_type.load(row.state),
        error=error.error if error is not None else None,
        output=codec.decode(run.output) if run.output is not None else None,
        waiting_for=None if run.waiting is None else [name for name in run.waiting.split(",") if name],
        wake_at=run.due_at,
        generation=run.generation,
    )
