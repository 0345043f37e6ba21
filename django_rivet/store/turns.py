"""The actor's turn: its row lock, its state and the numbers of its events."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db import OperationalError, transaction
from django.db.transaction import TransactionManagementError

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


def exists(actor_id: uuid.UUID) -> bool:
    """Whether the actor is there, as this transaction sees it."""
    return row(sql.READ_STATE, [actor_id]) is not None


def save(actor_id: uuid.UUID, state: str | None, events: Sequence[tuple[str, str]], loaded: str | None = None) -> None:
    """Write a changed state (None: unchanged) and the events of the turn.

    ``loaded`` is what the state was. Where it is another now, the turn was lost on the way (PostgreSQL gives a lock
    back with the savepoint that it was taken in): ``ActorBusyError``, and nothing of this transaction may be kept.
    Events are numbered here, under the row lock and as late as can be: without gaps, in the order of the commits.
    """
    found = row(sql.SAVE_TURN, [state, len(events), actor_id, state, loaded])
    if found is None:
        read(actor_id)
        raise ActorBusyError(f"the state of actor {actor_id} was changed by somebody else meanwhile; try again")
    first = int(found[0]) - len(events) + 1
    if events:
        one = fill("(%s, %s, %s, %s, {now})")
        params = [v for i, (name, payload) in enumerate(events) for v in (actor_id, first + i, name, payload)]
        execute(sql.ADD_EVENTS.format(rows=", ".join([one] * len(events))), params)


def refuse_broken() -> None:
    """``TransactionManagementError`` where the code that just ran has left a transaction that cannot be committed."""
    if is_broken():
        raise TransactionManagementError(
            "an error of the database was swallowed, which had ended the transaction: "
            "put what may fail into a transaction.atomic() block of its own"
        )


def is_broken() -> bool:
    """Whether the open transaction cannot be committed any more: a body swallowed an error of the database."""
    conn = connection()
    if not conn.in_atomic_block:
        return False
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
