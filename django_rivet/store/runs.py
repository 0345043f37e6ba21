"""Who may drive an actor: claims, heartbeats, and what is due."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime

from django_rivet.store import statements as sql
from django_rivet.store.database import aware, fill, moment_sql, row, rows
from django_rivet.store.journal import Lease
from django_rivet.store.transactions import engine_statement


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker owns the actor until its lease runs out."""

    lease: Lease
    takeovers: int
    """Above zero: the last drive was cut off."""
    cut_off: bool
    """The last drive did not end by itself: scopes may have ended that are not on record as ended."""
    status: str
    request: str
    error: str | None
    now: datetime
    """The database's clock at the claim."""
    read_at: float
    """This process's monotonic clock, in seconds, when that was read."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What somebody has seen who thinks that an actor is due. Where that is history, it says nothing about now."""

    epoch: int | None = None
    """The actor's epoch then: whoever has claimed it since has looked at everything that made it due."""
    message: int | None = None
    """A message that was sent to it; the last one, where there were more."""


def look(actor_id: uuid.UUID, hint: Hint = Hint(), *, dead: str = "") -> tuple[str, str] | None:
    """Type and key of an actor that ``claim`` would give now; None where it is gone, not due, or held.

    None as well where ``hint`` is void: it must not give the actor a second turn for what it has had one for.
    """
    of_hint = [hint.epoch, hint.epoch, hint.message, hint.message]
    found = row(fill(sql.LOOK), [actor_id, dead, *of_hint])
    return (str(found[0]), str(found[1])) if found is not None else None


def claim(actor_id: uuid.UUID, holder: str, lease_seconds: float, *, dead: str = "") -> Claim | None:
    """Take the actor where it is due and nobody holds it; None otherwise. One statement, one commit.

    ``dead`` names a worker whose leases count as run out: tests kill themselves and go on.
    """
    with engine_statement() as begun:
        found = row(fill(sql.CLAIM, lease=moment_sql(lease_seconds)), [holder, actor_id, dead])
        read_at = time.monotonic()
        begun.wrote_nothing = found is None
    if found is None:
        return None
    epoch, takeovers, cut_off, status, request, generation, error, now = found
    moment = aware(now)
    assert moment is not None
    return Claim(
        lease=Lease(actor_id, int(epoch), lease_seconds, int(generation)),
        takeovers=int(takeovers),
        cut_off=bool(cut_off),
        status=status,
        request=request,
        error=error,
        now=moment,
        read_at=read_at,
    )


def renew(lease: Lease, *, leaving: bool = False) -> bool:
    """The heartbeat; False where the lease is lost.

    ``leaving``: the worker was told to stop. Should it be killed before it is done, that counts as no takeover.
    """
    params = [leaving, lease.actor_id, lease.epoch]
    return row(fill(sql.RENEW, lease=moment_sql(lease.seconds)), params) is not None


@dataclass(frozen=True, slots=True)
class Due:
    """An actor that a worker should drive now."""

    actor_id: uuid.UUID
    type_name: str
    epoch: int
    """Another one later means that somebody has driven it since."""


def due_actors(limit: int, *, dead: str = "") -> list[Due]:
    """Who has been due the longest comes first; ``dead`` as for ``claim``."""
    return [Due(_uuid(actor_id), name, int(epoch)) for actor_id, name, epoch in rows(fill(sql.DUE), [dead, limit])]


def _uuid(value: object) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))
