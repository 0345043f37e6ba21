"""A worker's process forks whenever Celery replaces a process of its pool, whatever its threads are at.

The new process gets a copy of what they have half done: a lock inside of SQLite that another thread holds then is never
released in it, and it would share SQLite's file locks, psycopg's pool and the sockets of connections.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

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
        _work.kept = _shared(connections.all())
        yield


# Below: how it is done ---------------------------------------------------------------------------


class _Work:
    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self.lock = threading.Lock()
        self.kept: Sequence[BaseDatabaseWrapper] = ()
        self._held = threading.local()

    def pause(self) -> None:
        uses_sqlite = any(each.vendor == "sqlite" for each in self.kept)
        self._held.here = self.lock.acquire(timeout=SQLITE_SECONDS if uses_sqlite else SERVER_SECONDS)
        if self._held.here:
            for each in self.kept:
                each.close()
                if each.vendor == "postgresql":
                    each.close_pool()  # type: ignore[attr-defined]  # only this vendor has one

    def resume(self) -> None:
        if self._held.here:
            self.lock.release()


def _shared(kept: Sequence[BaseDatabaseWrapper]) -> Sequence[BaseDatabaseWrapper]:
    """Another thread may close them, too."""
    for each in kept:
        if not each.allow_thread_sharing:
            each.inc_thread_sharing()
    return kept


_work = _Work()
os.register_at_fork(before=_work.pause, after_in_parent=_work.resume, after_in_child=_work.begin_anew)
