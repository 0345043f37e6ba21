"""The actor's turn: its row lock, its state and the numbers of its events."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db import OperationalError, transaction

from django_rivet.actors.exceptions import ActorBusyError, ActorNotFoundError
from django_rivet.store import statements as sql
from django_rivet.store.database import alias, connection, execute, fill, is_postgresql, row


def lock(actor_id: uuid.UUID, timeout: float) -> str:
    """Wait for the turn and hold it until the transaction ends; returns the state as text.

    ``ActorBusyError`` after ``timeout`` seconds; the transaction around stays usable. On SQLite the turn is the
    write lock of the database, which its own ``timeout`` bounds.
    """
    if not is_postgresql():
        return _state(row(sql.READ_STATE, [actor_id]), actor_id)
    # Almost always nobody holds it, and then no savepoint is needed to survive a time-out.
    found = row(f"{sql.LOCK_TURN} SKIP LOCKED", [actor_id])
    if found is not None:
        return _state(found, actor_id)
    try:
        with transaction.atomic(alias()):
            execute(f"SET LOCAL lock_timeout = {int(timeout * 1000)}", ())
            found = row(sql.LOCK_TURN, [actor_id])
            execute("SET LOCAL lock_timeout = DEFAULT", ())
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != "55P03":
            raise
        raise ActorBusyError(f"actor {actor_id} was busy for {timeout:g} s; nothing happened, try again") from None
    return _state(found, actor_id)


def read(actor_id: uuid.UUID) -> str:
    """The state as committed, or as this transaction wrote it; waits for nobody."""
    return _state(row(sql.READ_STATE, [actor_id]), actor_id)


def save(actor_id: uuid.UUID, state: str | None, events: Sequence[tuple[str, str]]) -> int:
    """Write a changed state (None: unchanged) and the events of the turn; returns the last event's number.

    Numbers are given here, under the row lock and as late as can be, so that they have no gaps and the order of
    the commits.
    """
    found = row(sql.SAVE_TURN, [state, len(events), actor_id])
    if found is None:
        raise ActorNotFoundError(f"actor {actor_id} does not exist any more")
    last = int(found[0])
    if events:
        first = last - len(events) + 1
        one = fill("(%s, %s, %s, %s, {now})")
        params = [v for i, (name, payload) in enumerate(events) for v in (actor_id, first + i, name, payload)]
        execute(sql.ADD_EVENTS.format(rows=", ".join([one] * len(events))), params)
    return last


def is_broken() -> bool:
    """Whether the open transaction cannot be committed any more: a body swallowed an error of the database."""
    conn = connection()
    if conn.needs_rollback or conn.connection is None:
        return True
    if conn.vendor != "postgresql":
        return False
    from psycopg.pq import TransactionStatus

    return bool(conn.connection.info.transaction_status == TransactionStatus.INERROR)


def _state(found: tuple[object, ...] | None, actor_id: uuid.UUID) -> str:
    if found is None:
        raise ActorNotFoundError(f"actor {actor_id} does not exist any more")
    return str(found[0])
