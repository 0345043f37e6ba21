"""Actors that a worker should have taken: which, how many, and for how long already. Only reads, and locks nothing."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    Case,
    Count,
    DateTimeField,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce, Concat, Greatest, Least, StrIndex

from django_rivet.models import Message, WorkflowRun
from django_rivet.store.database import alias

Status = WorkflowRun.Status

SHOWN_OVERDUE = 3

CAN_BE_DUE = (Status.PENDING, Status.RUNNING, Status.SLEEPING, Status.ROLLING_BACK, Status.DIVERGED)
"""A worker drives only these."""


@dataclass(frozen=True, slots=True)
class Late:
    """An actor that a worker should have taken."""

    type_name: str
    key: str
    status: str
    seconds: float
    actor_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Overdue:
    """Actors that have been due for longer than ``after`` seconds: no worker, too few, or none that knows the type.

    Due is what the sweeper would hint at: the time has come, a message has come, or the worker is gone. Whoever waits
    for a slot of a type that has none free is not late.
    """

    after: float
    count: int = 0
    oldest: tuple[Late, ...] = ()

    @property
    def oldest_seconds(self) -> float | None:
        return self.oldest[0].seconds if self.oldest else None


def due(now: datetime, after: float) -> QuerySet[Any]:
    """The same actors as ``statements.DUE``, each with since when."""
    possible = WorkflowRun.objects.using(alias()).filter(status__in=CAN_BE_DUE).annotate(since=_since(now))
    return possible.filter(since__lte=now - timedelta(seconds=after))


def late(now: datetime, after: float, full: Collection[str]) -> QuerySet[Any]:
    """``full``: types whose actors wait for each other; no worker is missing there."""
    return due(now, after).exclude(actor__type__in=full)


def overdue(now: datetime, after: float, full: Collection[str]) -> Overdue:
    oldest = (
        late(now, after, full)
        .annotate(size=Window(Count("pk")))
        .order_by("since", "pk")
        .values_list("actor__type", "actor__key", "status", "since", "pk", "size")[:SHOWN_OVERDUE]
    )
    found = list(oldest)
    return Overdue(
        after,
        count=found[0][5] if found else 0,
        oldest=tuple(
            Late(name, key, status, (now - since).total_seconds(), pk) for name, key, status, since, pk, _ in found
        ),
    )


# Below: how it is done ---------------------------------------------------------------------------


def _since(now: datetime) -> Case:
    # SQLite and PostgreSQL disagree about the least of a value and NULL, so there is none.
    never = Value(now + timedelta(days=1), DateTimeField())
    waiting = ExpressionWrapper(OuterRef("waiting"), TextField())
    awaited = (
        Message.objects.filter(actor=OuterRef("pk"), status=Message.Status.QUEUED, visible_at__lte=now)
        .annotate(waiting=waiting, place=StrIndex(waiting, Concat(Value(","), "queue", Value(","))))
        .filter(Q(waiting=",") | Q(place__gt=0))
        # A message that lay behind others is late only from when its actor was last let go.
        .annotate(since=Greatest("visible_at", OuterRef("updated_at"), output_field=DateTimeField()))
        .order_by("visible_at")
        .values("since")[:1]
    )
    return Case(
        When(holder__isnull=False, then=F("lease_until")),
        When(waiting__isnull=True, then=F("due_at")),
        default=Least(Coalesce("due_at", never), Coalesce(Subquery(awaited), never)),
        output_field=DateTimeField(),
    )
