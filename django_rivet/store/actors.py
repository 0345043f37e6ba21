"""Making, finding and deleting actors."""

from __future__ import annotations

import uuid

from django_rivet.actors.exceptions import CompensationOwedError
from django_rivet.engine.entries import UndoStatus
from django_rivet.models import Actor, Compensation, WorkflowRun
from django_rivet.store.database import alias, database_now
from django_rivet.store.lifecycle import locked


def find(type_name: str, key: str) -> uuid.UUID | None:
    """The id of the actor of that type and key."""
    return Actor.objects.using(alias()).filter(type=type_name, key=key).values_list("id", flat=True).first()


def insert(type_name: str, key: str, input: str, state: str, *, has_workflow: bool) -> uuid.UUID | None:
    """Make an actor; None where somebody else has made it first, also at the same moment.

    Must run in a transaction: the actor and its run are two rows.
    """
    now = database_now()
    actor = Actor(type=type_name, key=key, input=input, state=state, created_at=now)
    # A conflict must not end the caller's transaction: PostgreSQL waits for the other one and inserts nothing.
    Actor.objects.using(alias()).bulk_create([actor], ignore_conflicts=True)
    if find(type_name, key) != actor.pk:
        return None
    status = WorkflowRun.Status.PENDING if has_workflow else WorkflowRun.Status.SLEEPING
    WorkflowRun.objects.using(alias()).create(
        actor=actor, status=status, due_at=now if has_workflow else None, updated_at=now
    )
    return actor.pk


def refuse_owed(actor_id: uuid.UUID) -> None:
    """``CompensationOwedError`` where steps of this actor have handlers that would run."""
    owed = Compensation.objects.using(alias()).filter(
        actor_id=actor_id, status__in=[UndoStatus.OWED, UndoStatus.FAILED]
    )
    count = owed.count()
    if count:
        paths = ", ".join(repr(path) for path in owed.order_by("-seq").values_list("path", flat=True)[:5])
        raise CompensationOwedError(
            f"actor {actor_id} owes the rollback of {count} steps ({paths}{', …' if count > 5 else ''}), of which "
            "nobody would know any more: cancel(rollback=True) first, or destroy(force=True) and leave them as they are"
        )


def delete(actor_id: uuid.UUID, *, force: bool) -> None:
    """The actor and everything that belongs to it. The caller holds its turn.

    The run first: from then on no drive gets past its fence. Then the actor, against whoever is about to commit a
    message to it, which would be left without an actor.
    """
    locked(actor_id)
    if not force:
        refuse_owed(actor_id)
    found = Actor.objects.using(alias()).filter(pk=actor_id)
    found.select_for_update().values_list("pk").first()
    found.delete()
