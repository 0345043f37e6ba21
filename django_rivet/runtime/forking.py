"""A worker's process forks whenever Celery replaces a process of its pool, whatever its threads are at.

The new process gets a copy of what they have half done: a lock inside of SQLite that another thread holds at that
moment is never released in it, and it would share SQLite's file locks, psycopg's pool and the sockets of connections.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

SQLITE_SECONDS = 30.0
"""How long a fork waits for a thread that is at work on SQLite: longer than SQLite lets anybody wait for its lock."""

SERVER_SECONDS = 1.0
"""The same where the databases are servers: who waits for one holds no lock that a fork would copy."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """For the one thread of a process that uses databases beside the one that forks: no fork meanwhile.

    A fork closes the connections that it keeps; they are opened anew when it next uses them.
    """
    with _work.lock:
        _work.kept = _shared([*connections.all()])
        yield


# Below: how it is done ---------------------------------------------------------------------------


class _Work:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: list[BaseDatabaseWrapper] = []
        self._held = threading.local()

    def pause(self) -> None:
        # A signal may raise out of this wait. What an earlier fork of this thread held is not held now.
        self._held.here = False
        uses_sqlite = any(each.vendor == "sqlite" for each in self.kept)
        self._held.here = self.lock.acquire(timeout=SQLITE_SECONDS if uses_sqlite else SERVER_SECONDS)
        if self._held.here:
            for each in self.kept:
                _close(each)

    def resume(self) -> None:
        if self._held.here:
            self._held.here = False
            self.lock.release()


def _shared(kept: list[BaseDatabaseWrapper]) -> list[BaseDatabaseWrapper]:
    """Another thread may close them, too."""
    for each in kept:
        if not each.allow_thread_sharing:
            each.inc_thread_sharing()
    return kept


def _close(each: BaseDatabaseWrapper) -> None:
    try:
        each.close()
        if each.vendor == "postgresql":
            each.close_pool()  # type: ignore[attr-defined]  # only this vendor has one
    except Exception:
        # Python would only print it, and leave the other ones open.
        logger.exception("connection %r was not closed before a fork", each.alias)


def _pause() -> None:
    _work.pause()


def _resume() -> None:
    _work.resume()


def _begin_anew() -> None:
    """In the new process. Where the fork did not wait any longer, something may still be open, and half done."""
    global _work
    pools = [getattr(each, "_connection_pools", {}).pop(each.alias, None) for each in _work.kept]
    # What came along stays as it is: to finalize it takes locks, and threads, that are not here.
    _inherited.extend((_work, pools))
    _work = _Work()


_inherited: list[Any] = []
_work = _Work()
os.register_at_fork(before=_pause, after_in_parent=_resume, after_in_child=_begin_anew)
