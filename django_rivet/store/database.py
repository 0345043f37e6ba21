"""The engine's database: which one it is, its clock, and how values are handed to plain SQL."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from django_rivet.models import Actor

SQLITE_INSTRUCTIONS = 100_000
"""Between two looks at the signals that have come; a few milliseconds."""

CANCEL_SECONDS = 5.0
"""How long to wait for PostgreSQL to take a cancellation; then the connection is closed."""


def alias() -> str:
    """The alias of the one database that holds the engine's tables."""
    return router.db_for_write(Actor)


def connection() -> BaseDatabaseWrapper:
    return connections[alias()]


def is_postgresql() -> bool:
    return connection().vendor == "postgresql"


def execute(sql: str, params: Sequence[Any]) -> int:
    """Run a statement; returns how many rows it touched."""
    with connection().cursor() as cursor:
        cursor.execute(sql, adapted(params))
        return int(cursor.rowcount)


def rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection().cursor() as cursor:
        cursor.execute(sql, adapted(params))
        return list(cursor.fetchall())


def row(sql: str, params: Sequence[Any]) -> tuple[Any, ...] | None:
    found = rows(sql, params)
    return found[0] if found else None


def adapted(params: Sequence[Any]) -> list[Any]:
    """Parameters as both drivers take them without the ORM in between."""
    adapt = connection().ops.adapt_datetimefield_value
    return [
        value.hex if isinstance(value, uuid.UUID) else adapt(value) if isinstance(value, datetime) else value
        for value in params
    ]


def aware(value: Any) -> datetime | None:
    """A point in time as plain SQL gives it back: SQLite has it as text."""
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return value
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC)


def abandon_queries() -> None:
    """Make connections usable again whose query an interruption has left running: PostgreSQL is told to cancel it."""
    for each in connections.all(initialized_only=True):
        if each.vendor == "postgresql" and each.connection is not None and not each.connection.closed:
            _abandon_query(each)


def let_signals_in(sender: Any, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """For Django's ``connection_created``. Python runs a signal's handler between instructions of its own, of which
    there are none while SQLite computes: unless it calls Python now and then.
    """
    if connection.vendor == "sqlite":
        connection.connection.set_progress_handler(_look_up, SQLITE_INSTRUCTIONS)


def _look_up() -> None:
    """Python, which a function written in C would not be."""


def _abandon_query(conn: BaseDatabaseWrapper) -> None:
    from psycopg import Error
    from psycopg.pq import TransactionStatus

    driver = conn.connection
    if driver.info.transaction_status != TransactionStatus.ACTIVE:
        return
    try:
        driver.cancel_safe(timeout=CANCEL_SECONDS)
        while driver.pgconn.get_result() is not None:
            pass
    except Error:
        # Whatever it still does, it does without us.
        driver.close()


# The clock ---------------------------------------------------------------------------------------


def database_now() -> datetime:
    """The database's clock, moved by what a test has advanced it."""
    if is_postgresql():
        found = row("SELECT clock_timestamp()", ())
        assert found is not None
        moment: datetime = found[0]
    else:
        # SQLite has no clock of its own: it runs in this process, on this machine.
        moment = datetime.now(UTC)
    return moment + timedelta(seconds=clock.offset)


def fill(sql: str, **parts: str) -> str:
    """Put the database's dialect, and its clock, into a statement: comparing there saves one."""
    if "{now}" in sql:
        parts["now"] = moment_sql()
    if "{skip_locked}" in sql:
        parts["skip_locked"] = "FOR UPDATE OF r SKIP LOCKED" if is_postgresql() else ""
    if "{position}" in sql:
        find = "strpos" if is_postgresql() else "instr"
        parts["position"] = f"{find}(r.waiting, ',' || m.queue || ',') > 0"
    if "{latest}" in sql:
        parts["latest"] = "greatest" if is_postgresql() else "max"
    return sql.format(**parts)


def moment_sql(later: float = 0.0) -> str:
    """``later`` seconds from now as an expression. Made of numbers of our own only."""
    seconds = clock.offset + later
    if is_postgresql():
        return f"(clock_timestamp() + {seconds!r} * interval '1 second')"
    moment = connection().ops.adapt_datetimefield_value(datetime.now(UTC) + timedelta(seconds=seconds))
    return f"'{moment}'"


def marks(count: int) -> str:
    return ", ".join(["%s"] * count)


class _Clock:
    offset = 0.0
    """Seconds by which tests have advanced the engine's clock; 0 in production."""


clock = _Clock()
