"""Making and finding actors."""

from __future__ import annotations

import uuid

from django_rivet.models import Actor, WorkflowRun
from django_rivet.store.database import alias, database_now


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
