"""A database that goes away, told from one that answers with an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import Error, InterfaceError, OperationalError

from django_rivet.store.database import connection

CONNECTION_EXCEPTION, SERVER_SHUTS_DOWN, SESSION_IDLED = "08", "57P", "25P"
"""How the codes of errors begin after which there is no session any more."""


def is_outage(error: BaseException) -> bool:
    """Whether the server, or the way to it, went away: what was open is undone, another connection may be had."""
    if not isinstance(error, (OperationalError, InterfaceError)) or connection().vendor != "postgresql":
        return False
    import psycopg

    driver = error.__cause__
    if not isinstance(driver, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    return driver.sqlstate is None or driver.sqlstate.startswith(
        (CONNECTION_EXCEPTION, SERVER_SHUTS_DOWN, SESSION_IDLED)
    )


class Held:
    """The engine's connection as it was when a body began."""

    def __init__(self) -> None:
        self._driver = connection().connection

    def was_lost(self, error: BaseException) -> bool:
        """Whether the body raised this because that connection went away under it.

        What a body does to the connection by itself, and other databases that it asks, are its own business.
        """
        conn = connection()
        if conn.vendor != "postgresql" or conn.closed_in_transaction:
            return False
        is_lost = _is_gone(conn.connection)
        # A transaction that is lost is lost, whatever the body made of it.
        if conn.in_atomic_block:
            return is_lost
        # Outside of one Django may have opened another connection since.
        return (is_lost or _is_gone(self._driver)) and any(is_outage(each) for each in _with_causes(error))


def forget_lost_connection() -> None:
    """Let go of a connection that is known to be gone, so that the next statement opens another one.

    Django does so at the end of a request only. Inside a transaction nothing happens: that one has to end first.
    """
    conn = connection()
    if conn.vendor != "postgresql" or conn.in_atomic_block:
        return
    if conn.connection is not None and conn.connection.closed:
        conn.close()


# Below: how it is done ---------------------------------------------------------------------------


def _is_gone(driver: Any) -> bool:
    return driver is None or bool(driver.closed)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        # The driver's own errors, below Django's, say nothing new.
        each = None if isinstance(each, Error) else each.__cause__ or each.__context__
