"""Which actors are overdue: one meaning for the list, an actor's page and the overview."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from django_rivet.store.overview import overdue_runs

LATE_AFTER = 5.0
"""Seconds. What is due is taken within a sweep; only what waits longer deserves a word."""


def late_runs() -> QuerySet[Any]:
    """Of all actors, those that a worker should have taken by now."""
    return overdue_runs(LATE_AFTER)


def late_among(actor_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of them; a handful of statements, however many there are."""
    return set(late_runs().filter(pk__in=actor_ids).values_list("pk", flat=True)) if actor_ids else set()
