"""The server's side of the tests: it ends sessions, and knows when they are gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from django.db import connection, connections

GONE_IN = 30.0
"""Seconds; on a machine under load a session takes a while to end."""


class Server:
    """A session of its own, which no test ends."""

    def __enter__(self) -> Self:
        connection.ensure_connection()
        params = connection.get_connection_params()
        wanted = {key: params[key] for key in ("host", "port", "user", "password", "dbname") if params.get(key)}
        self._session = psycopg.connect(**wanted, autocommit=True)
        return self

    def __exit__(self, *args: object) -> None:
        self._session.close()

    def end_session(self) -> None:
        """End the session of this thread's Django connection, which does not know of it yet."""
        connection.ensure_connection()
        self.end(connection.connection.info.backend_pid)

    def end_session_during(self, query: str) -> None:
        """End it while it runs this query, from a thread beside; the query raises."""
        pid = connection.connection.info.backend_pid
        ender = threading.Thread(target=self._end_once, args=(pid, query))
        ender.start()
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
        finally:
            ender.join()

    def end(self, pid: int) -> None:
        """Returns when it is gone."""
        self._session.execute("SELECT pg_terminate_backend(%s)", [pid])
        until = time.monotonic() + GONE_IN
        while self._session.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone():
            assert time.monotonic() < until, f"session {pid} does not end"
            time.sleep(0.002)

    def sessions_of(self, application: str) -> list[int]:
        """The sessions on this database of processes with this PGAPPNAME."""
        found = self._session.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s",
            [application],
        )
        return [pid for (pid,) in found]

    def wait_for_blocked(self, like: str) -> None:
        """Until a session waits for a lock with a statement like this."""
        find = (
            "SELECT 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s"
        )
        until = time.monotonic() + GONE_IN
        while not self._session.execute(find, [like]).fetchone():
            assert time.monotonic() < until, f"nobody waits with {like}"
            time.sleep(0.01)

    # Below: how it is done -------------------------------------------------------------------

    def _end_once(self, pid: int, query: str) -> None:
        until = time.monotonic() + GONE_IN
        find = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND query = %s"
        while not self._session.execute(find, [pid, query]).fetchone() and time.monotonic() < until:
            time.sleep(0.01)
        self.end(pid)


class EndingSession:
    """An observer of commits that ends the session just before the n-th one (from 1) of those it sees."""

    def __init__(self, server: Server, n: int) -> None:
        self._server = server
        self._left = n

    def before(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._server.end_session()

    def after(self) -> None:
        pass

    @property
    def has_ended(self) -> bool:
        return self._left <= 0


@contextmanager
def answer_of_commit_lost(server: Server, when: Callable[[], object]) -> Iterator[None]:
    """The first COMMIT for which ``when()`` holds happens, and the session ends before the client hears of it."""
    wrapper: Any = connections["default"]
    commit: Callable[[], Any] = wrapper._commit
    lost: list[bool] = []

    def commit_and_lose() -> None:
        commit()
        if not lost and when():
            lost.append(True)
            server.end_session()
            with wrapper.wrap_database_errors:
                wrapper.connection.execute("SELECT 1")

    wrapper._commit = commit_and_lose
    try:
        yield
    finally:
        del wrapper._commit
    assert lost, "there was no such commit"
