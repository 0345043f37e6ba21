"""Who may drive an actor: claims, heartbeats, and what is due."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime

from django_rivet.store import slots
from django_rivet.store import statements as sql
from django_rivet.store.database import aware, connection, execute, fill, marks, moment_sql, row, rows
from django_rivet.store.journal import Lease
from django_rivet.store.transactions import engine_statement, engine_transaction


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
    started_at: datetime
    """When the run began that this drive is part of."""
    pausing: bool
    """Somebody asked that it pauses, and its last worker died before it did."""
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


def claim(
    actor_id: uuid.UUID,
    holder: str,
    lease_seconds: float,
    *,
    dead: str = "",
    cap: slots.Cap | None = None,
    in_order: bool = True,
) -> Claim | None:
    """Take the actor where it is due and nobody holds it; None otherwise. One statement, one commit.

    ``cap``: only where its type has a slot free, and it is its turn (``in_order``): a few statements more, one commit.
    ``dead`` names a worker whose leases count as run out: tests kill themselves and go on.
    """
    found, evicted = None, 0
    is_outermost = not connection().in_atomic_block
    with engine_statement() if cap is None else engine_transaction(idle_limit=lease_seconds) as begun:
        may_run = True
        if cap is not None:
            slots.await_others(cap, is_outermost=is_outermost)
            turn = slots.look(actor_id, cap, dead=dead, in_order=in_order)
            may_run, evicted = turn.has_come, turn.evicted
        if may_run:
            found = row(fill(sql.CLAIM, lease=moment_sql(lease_seconds)), [holder, actor_id, dead])
            read_at = time.monotonic()
        begun.wrote_nothing = found is None and not evicted
    if found is None:
        return None
    epoch, takeovers, cut_off, status, request, generation, error, began, pausing, now = found
    started_at, moment = aware(began), aware(now)
    assert started_at is not None
    assert moment is not None
    return Claim(
        lease=Lease(actor_id, int(epoch), lease_seconds, int(generation)),
        takeovers=int(takeovers),
        cut_off=bool(cut_off),
        status=status,
        request=request,
        error=error,
        started_at=started_at,
        pausing=bool(pausing),
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
    """Who has been due the longest comes first; of a type with a cap only those whose turn it is, behind the others.

    ``dead`` as for ``claim``.
    """
    caps = slots.caps()
    names = [cap.type_name for cap in caps]
    statement = fill(sql.DUE, uncapped=f" AND a.type NOT IN ({marks(len(names))})" if names else "")
    found = rows(statement, [*names, dead, *names, *names, limit])
    due = [Due(slots.as_uuid(actor_id), name, int(epoch)) for actor_id, name, epoch in found]
    for cap in caps:
        due += [Due(actor_id, cap.type_name, epoch) for actor_id, epoch in slots.next_in_line(cap, dead=dead)]
    return due


BROUGHT_FORWARD_AT_ONCE = 1000


def bring_forward(type_name: str, run_timeout: float) -> int:
    """Make actors due that sleep past their ``run_timeout``; returns how many, at most ``BROUGHT_FORWARD_AT_ONCE``."""
    statement = fill(sql.BRING_FORWARD, began=moment_sql(-run_timeout))
    return execute(statement, [type_name, BROUGHT_FORWARD_AT_ONCE])
