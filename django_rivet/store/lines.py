"""Actors that are due and wait for each other: all slots of their type are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from django_rivet.store.slots import caps


@dataclass(frozen=True, slots=True)
class Line:
    """Of one type, whose ``max_running`` is reached."""

    type_name: str
    limit: int
    running: int
    waiting: int


def lines(due: QuerySet[Any], running: Mapping[str, int]) -> tuple[Line, ...]:
    """By type; ``due`` are the actors that a worker would take now, ``running`` counts live leases by type.

    Asks the database only where a type has no slot left.
    """
    full = {cap.type_name: cap.limit for cap in caps() if running.get(cap.type_name, 0) >= cap.limit}
    if not full:
        return ()
    waiting = dict(
        due.filter(actor__type__in=full)
        .order_by()
        .values("actor__type")
        .annotate(size=Count("pk"))
        .values_list("actor__type", "size")
    )
    return tuple(Line(name, full[name], running[name], waiting.get(name, 0)) for name in sorted(full))
