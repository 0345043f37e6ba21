"""All actors at one look, for operators and for monitoring. Only reads, and locks nothing.

The number of statements does not depend on the number of actors, nor do the rows that come back. Between two of the
statements workers go on, so the parts may differ by what happened in that instant.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import (
    Case,
    Count,
    Max,
    Q,
    QuerySet,
    Sum,
    When,
)

from django_rivet.engine.entries import ErrorInfo
from django_rivet.models import Message, WorkflowRun
from django_rivet.store.capacity import Capacity, capacity
from django_rivet.store.database import alias, connection, database_now
from django_rivet.store.lines import Line, lines
from django_rivet.store.overdue import CAN_BE_DUE, Overdue, due, late, overdue
from django_rivet.store.run_errors import load_run_error
from django_rivet.store.slots import caps

Status = WorkflowRun.Status

SHOWN_TROUBLED = 10

FINISHED = (Status.COMPLETED, Status.CANCELLED)
"""Nobody will ever take what lies in their mailboxes."""

TROUBLED = (Status.ROLLBACK_FAILED, Status.FAILED, Status.DIVERGED)
"""The most urgent first: what was taken and could not be given back."""


@dataclass(frozen=True, slots=True)
class Leases:
    """Who drives what."""

    held: int
    dead: int
    """Their workers died, and nobody has taken the actors over yet."""
    workers: tuple[str, ...]
    """Processes that hold a lease now. One that has nothing to do is not seen."""
    running: Mapping[str, int]
    """Leases held, by type."""


@dataclass(frozen=True, slots=True)
class OldestMessage:
    """Of those that could be taken now, the one that has waited longest."""

    type_name: str
    key: str
    queue: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Troubled:
    """An actor that needs a person, or other code."""

    type_name: str
    key: str
    status: str
    error: ErrorInfo | None
    seconds: float
    """Since its last change; for a diverged actor that is its last try."""
    actor_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Overview:
    """How all actors stand."""

    now: datetime
    clock_skew: float
    """Seconds by which the engine's clock is ahead of this machine's."""
    statuses: Mapping[str, int]
    """Every status, also those that no actor has."""
    types: Mapping[str, Mapping[str, int]] | None
    """The same per type; None where it was not asked for."""
    takeovers: int
    """Workers that died, summed over actors; an actor's count is reset by progress."""
    most_takeovers: int
    overdue: Overdue
    lines: tuple[Line, ...]
    """Types of which as many are driven as ``max_running`` allows."""
    leases: Leases
    oldest_message: OldestMessage | None
    troubled: tuple[Troubled, ...]
    """The most urgent ones only."""
    connections: Capacity | None
    """Of the database server; None on SQLite."""


def overview(overdue_after: float, *, with_types: bool = False) -> Overview:
    """Look at all actors; ``overdue_after`` seconds of being due are nothing to speak of."""
    now, skew = _clocks()
    counts = _counts(with_types=with_types)
    leases = _leases(now)
    full = lines(due(now, 0), leases.running)
    return Overview(
        now=now,
        clock_skew=skew,
        statuses=counts.statuses,
        types=counts.types if with_types else None,
        takeovers=counts.takeovers,
        most_takeovers=counts.most_takeovers,
        overdue=overdue(now, overdue_after, [line.type_name for line in full]),
        lines=full,
        leases=leases,
        oldest_message=_oldest_message(now),
        troubled=_troubled(now),
        connections=capacity(),
    )


def overdue_runs(after: float) -> QuerySet[Any]:
    """Those that ``overview(after).overdue`` counts, to narrow a list with."""
    now = database_now()
    full = lines(due(now, 0), _leases(now).running) if caps() else ()
    return late(now, after, [line.type_name for line in full])


# Below: how it is done ---------------------------------------------------------------------------


def _runs() -> QuerySet[WorkflowRun]:
    # What operators see must not lag behind what they do: no replica.
    return WorkflowRun.objects.using(alias())


def _clocks() -> tuple[datetime, float]:
    # Opening a connection takes longer than the question, and would pass for a skew.
    connection().ensure_connection()
    asked = datetime.now(UTC)
    now = database_now()
    answered = datetime.now(UTC)
    return now, (now - (asked + (answered - asked) / 2)).total_seconds()


@dataclass(slots=True)
class _Counts:
    statuses: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Status.values, 0))
    types: dict[str, dict[str, int]] = field(default_factory=dict)
    takeovers: int = 0
    most_takeovers: int = 0


def _counts(*, with_types: bool) -> _Counts:
    groups = ["status", *(["actor__type"] if with_types else [])]
    found = _runs().values(*groups).annotate(size=Count("pk"), total=Sum("takeovers"), most=Max("takeovers"))
    counts = _Counts()
    group: dict[str, Any]
    for group in found.order_by(*reversed(groups)):
        status, size = group["status"], group["size"]
        counts.statuses[status] = counts.statuses.get(status, 0) + size
        counts.takeovers += group["total"]
        counts.most_takeovers = max(counts.most_takeovers, group["most"])
        if with_types:
            counts.types.setdefault(group["actor__type"], {})[status] = size
    return counts


def _leases(now: datetime) -> Leases:
    holders = (
        _runs()
        .filter(status__in=CAN_BE_DUE, holder__isnull=False)
        .values("holder", "actor__type")
        .annotate(held=Count("pk", filter=Q(lease_until__gt=now)), dead=Count("pk", filter=Q(lease_until__lte=now)))
        .order_by()
    )
    found = [(str(each["holder"]), each["actor__type"], each["held"], each["dead"]) for each in holders]
    running: Counter[str] = Counter()
    for _, type_name, held, _ in found:
        running[type_name] += held
    return Leases(
        held=running.total(),
        dead=sum(dead for *_, dead in found),
        workers=tuple(sorted({_process_of(holder) for holder, _, held, _ in found if held})),
        running=running,
    )


def _process_of(holder: str) -> str:
    """``host:pid`` of ``host:pid:drive``: every drive takes a name of its own."""
    return ":".join(holder.split(":")[:2])


def _oldest_message(now: datetime) -> OldestMessage | None:
    waiting = Message.objects.using(alias()).filter(status=Message.Status.QUEUED, visible_at__lte=now)
    oldest = (
        waiting.exclude(actor__run__status__in=FINISHED)
        .order_by("visible_at", "pk")
        .values_list("actor__type", "actor__key", "queue", "visible_at")
        .first()
    )
    if oldest is None:
        return None
    type_name, key, queue, visible_at = oldest
    return OldestMessage(type_name, key, queue, _age(visible_at, now))


def _troubled(now: datetime) -> tuple[Troubled, ...]:
    urgency = Case(*(When(status=status, then=place) for place, status in enumerate(TROUBLED)))
    found = (
        _runs()
        .filter(status__in=TROUBLED)
        .order_by(urgency, "-updated_at", "pk")
        .values_list("actor__type", "actor__key", "status", "error", "updated_at", "pk")[:SHOWN_TROUBLED]
    )
    return tuple(
        Troubled(name, key, status, _read_error(error), _age(updated_at, now), pk)
        for name, key, status, error, updated_at, pk in found
    )


def _read_error(stored: str | None) -> ErrorInfo | None:
    error = load_run_error(stored)
    return error.error if error is not None else None


def _age(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
