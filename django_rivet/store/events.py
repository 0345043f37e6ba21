"""Old events are forgotten."""

from __future__ import annotations

from datetime import timedelta

from django_rivet.models import Event
from django_rivet.store.database import alias, database_now

FORGOTTEN_AT_ONCE = 1000
"""Rows of one statement: a larger one would hold its locks for long."""


def forget_events(older_than_seconds: float) -> int:
    """Delete the oldest of the events that are over that age; returns how many, at most ``FORGOTTEN_AT_ONCE``."""
    events = Event.objects.using(alias())
    limit = database_now() - timedelta(seconds=older_than_seconds)
    old = list(
        events.filter(created_at__lt=limit).order_by("created_at").values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE]
    )
    if old:
        events.filter(pk__in=old).delete()
    return len(old)
