"""Connections of one thread, lent to another, which may be left behind with them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from django.db import connections

CUT_SECONDS = 1.0
"""How long to wait for sessions to end; a thread that waits for SQLite's lock holds up whoever wants to end that."""


class Loan:
    """All connections of the thread that makes it, opened or not."""

    def __init__(self) -> None:
        self._lent = {each.alias: each for each in connections.all()}
        self._in_statement = threading.RLock()
        for each in self._lent.values():
            each.inc_thread_sharing()

    @contextmanager
    def borrowed(self, guard: Callable[..., Any]) -> Iterator[None]:
        """In the other thread: its connections are the lent ones; ``guard`` is asked before each statement."""

        def guarded(*statement: Any) -> Any:
            with self._in_statement:
                return guard(*statement)

        with ExitStack() as stack:
            for name, each in self._lent.items():
                connections[name] = each
                stack.callback(connections.__delitem__, name)
                stack.enter_context(each.execute_wrapper(guarded))
            yield

    def end(self) -> None:
        """The other thread has given them back."""
        for each in self._lent.values():
            each.dec_thread_sharing()

    def close(self) -> None:
        """In the other thread, which kept them: it may have opened one anew, in vain."""
        for each in self._lent.values():
            each.close()

    def abandon(self) -> None:
        """The other thread keeps them, and cannot use them: sessions are ended, transactions rolled back, locks gone.

        This thread opens new ones when it next asks for one.
        """
        for name in self._lent:
            del connections[name]
        cut = threading.Thread(target=self._cut, name="rivet-cut", daemon=True)
        cut.start()
        cut.join(CUT_SECONDS)

    # Below: how it is done -------------------------------------------------------------------

    def _cut(self) -> None:
        for each in self._lent.values():
            if (driver := each.connection) is not None:
                _CUTS.get(each.vendor, _leave)(driver, self._in_statement)


def _cut_postgresql(driver: Any, in_statement: threading.RLock) -> None:
    """The server ends a session whose client is gone; a query that still runs has to be cancelled before it looks."""
    from psycopg import OperationalError

    with suppress(OperationalError, OSError):  # it has ended by itself
        cancellation = driver.pgconn.get_cancel()
        with socket.socket(fileno=os.dup(driver.pgconn.socket)) as line:
            line.shutdown(socket.SHUT_RDWR)
        cancellation.cancel()


def _cut_sqlite(driver: Any, in_statement: threading.RLock) -> None:
    # Whoever closes it under a statement that runs, or waits for the lock, crashes the process.
    while not in_statement.acquire(timeout=0.005):
        driver.interrupt()
    try:
        _end_sqlite(driver)
    finally:
        in_statement.release()


def _end_sqlite(driver: Any) -> None:
    from sqlite3 import Error, ProgrammingError

    ends = time.monotonic() + CUT_SECONDS
    with suppress(ProgrammingError):  # closed by itself
        # Closing alone leaves the transaction to whichever statement is unfinished; while one runs, that is not heard.
        while driver.in_transaction and time.monotonic() < ends:
            driver.interrupt()
            with suppress(Error, MemoryError, SystemError):  # what it says when both threads ask at once
                driver.rollback()
            time.sleep(0.005)
        driver.interrupt()
        driver.close()


def _leave(driver: Any, in_statement: threading.RLock) -> None:
    """Another database's session stays until the other thread asks it for something, and is refused."""


_CUTS: dict[str, Callable[[Any, threading.RLock], None]] = {"postgresql": _cut_postgresql, "sqlite": _cut_sqlite}
