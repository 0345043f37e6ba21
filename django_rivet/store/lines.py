"""Actors that are due and wait for a slot of their type, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from django_rivet.models import WorkflowRun
from django_rivet.store.slots import caps


@dataclass(frozen=True, slots=True)
class Line:
    """Those of one type with ``max_running``."""

    type_name: str
    limit: int
    running: int
    waiting: int

    @property
    def is_full(self) -> bool:
        """They wait for each other, and not for a worker."""
        return self.running >= self.limit


def lines(runs: QuerySet[WorkflowRun], due: QuerySet[WorkflowRun], now: datetime) -> tuple[Line, ...]:
    """Types of which somebody waits, by name. ``runs`` are all, ``due`` those that a worker should take now."""
    limits = {cap.type_name: cap.limit for cap in caps()}
    if not limits:
        return ()
    waiting = _by_type(due.filter(actor__type__in=limits))
    running = _by_type(runs.filter(Q(actor__type__in=waiting), holder__isnull=False, lease_until__gt=now))
    return tuple(Line(name, limits[name], running.get(name, 0), waiting[name]) for name in sorted(waiting))


# Below: how it is done ---------------------------------------------------------------------------


def _by_type(found: QuerySet[WorkflowRun]) -> dict[str, int]:
    return dict(found.order_by().values("actor__type").annotate(size=Count("pk")).values_list("actor__type", "size"))
