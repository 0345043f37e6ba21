"""One look at an actor."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.actors.state import StateType
from django_rivet.engine import codec
from django_rivet.engine.entries import ErrorInfo
from django_rivet.models import Actor as ActorRow
from django_rivet.store.database import alias
from django_rivet.store.run_errors import load_run_error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is committed, all of it from one statement."""

    status: str
    stored_state: str
    state_type: StateType
    error: ErrorInfo | None
    output: Any
    waiting_for: list[str] | None
    """Queues it waits for; empty: any; None: it waits for no message."""
    wake_at: datetime | None
    """When it goes on by itself; None while it is paused."""
    generation: int

    @property
    def state(self) -> Any:
        """``InvalidInputError`` where the class has changed and what is stored does not fit it any more."""
        return self.state_type.load(self.stored_state)


def take_snapshot(actor_class: type[Actor[Any]], actor_id: uuid.UUID) -> Snapshot:
    row = ActorRow.objects.using(alias()).select_related("run").filter(pk=actor_id).first()
    if row is None:
        raise ActorNotFoundError(f"{actor_class.definition.type_name} {actor_id} does not exist any more")
    run = row.run
    error = load_run_error(run.error)
    return Snapshot(
        status=str(run.status),
        stored_state=row.state,
        state_type=actor_class.definition.state_type,
        error=error.error if error is not None else None,
        output=codec.decode(run.output) if run.output is not None else None,
        waiting_for=None if run.waiting is None else [name for name in run.waiting.split(",") if name],
        wake_at=run.wake_at,
        generation=run.generation,
    )
