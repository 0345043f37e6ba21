"""``Meta.max_running``: of some types only so many actors are driven at the same time, in the order they became due.

A slot is a held lease. Claims of one type go one after another: each counts under a lock that only claims of that
type take. A lease that has run out holds its slot until somebody needs it; then it is taken from its worker for good,
so that a worker which was only slow cannot come back on top of the one that has its slot now.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.registry import registry
from django_rivet.store import statements as sql
from django_rivet.store.database import execute, fill, is_postgresql, row, rows


@dataclass(frozen=True, slots=True)
class Cap:
    """How many actors of a type may be driven at the same time, as of today's class."""

    type_name: str
    limit: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What a look at the slots came to."""

    has_come: bool
    evicted: int
    """Leases that had run out and were taken from their workers: the look has written something."""


def cap_of(definition: ActorDefinition) -> Cap | None:
    """None: any number of them may be driven."""
    limit = definition.meta.max_running
    return Cap(definition.type_name, limit) if limit is not None else None


def caps() -> list[Cap]:
    """Of all types that this process knows."""
    return [cap for cap in map(cap_of, registry) if cap is not None]


def await_others(cap: Cap, *, is_outermost: bool) -> None:
    """Wait for claims of this type that are under way; the first statement of a transaction.

    On SQLite there is one writer anyway. ``is_outermost``: the transaction is ours, and may have the isolation under
    which a count sees what was committed while it waited, whatever the project's own is.
    """
    if is_postgresql():
        if is_outermost:
            execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", ())
        execute("SELECT pg_advisory_xact_lock(%s)", [_key(cap.type_name)])


def look(actor_id: uuid.UUID, cap: Cap, *, dead: str = "", in_order: bool = True) -> Turn:
    """Whether this actor may be claimed now: behind ``await_others``, in the same transaction.

    ``in_order=False``: wherever it stands in the line, as long as there is a slot.
    """
    evicted = 0
    free = cap.limit - _held(cap)
    if free <= 0:
        evicted = execute(fill(sql.EVICT), [cap.type_name, dead])
        free = cap.limit - _held(cap)
    if free <= 0:
        return Turn(False, evicted)
    has_come = not in_order or any(each == actor_id for each, _ in _line(cap, free, dead))
    return Turn(has_come, evicted)


def next_in_line(cap: Cap, *, dead: str = "") -> list[tuple[uuid.UUID, int]]:
    """Ids and epochs of those that there are slots for now, without a lock: who is rung first."""
    found = row(fill(sql.LIVE_SLOTS), [cap.type_name, dead])
    assert found is not None
    free = cap.limit - int(found[0])
    return _line(cap, free, dead) if free > 0 else []


# Below: how it is done ---------------------------------------------------------------------------


def _held(cap: Cap) -> int:
    """All leases: one that has run out may be renewed as long as nobody has taken it away."""
    found = row(sql.HELD_SLOTS, [cap.type_name])
    assert found is not None
    return int(found[0])


def _line(cap: Cap, size: int, dead: str) -> list[tuple[uuid.UUID, int]]:
    params = [cap.type_name, dead, cap.type_name, cap.type_name, size]
    return [(as_uuid(actor_id), int(epoch)) for actor_id, epoch in rows(fill(sql.LINE), params)]


def as_uuid(value: object) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))


def _key(type_name: str) -> int:
    """Of an advisory lock. Two types of one key would only wait for each other."""
    digest = hashlib.sha256(f"django_rivet.max_running:{type_name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
