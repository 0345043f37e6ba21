"""The threads of branches: as many as ``BRANCH_THREADS`` in one process, each with database connections of its own."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from django.db import Error, connections

from django_rivet.conf import get_settings
from django_rivet.runtime.connecting import make_ready, psycopg_pool
from django_rivet.store.database import connection

logger = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
"""How long a thread waits for another branch: to begin a thread, and connect, takes longer than most steps."""

Work = Callable[[], None]


class BranchThreads:
    """One that has been idle for a while closes its connections and ends; there is none where there are no joins."""

    def __init__(self) -> None:
        self._count = 0
        self._idle: list[_Thread] = []
        self._is_closing = False
        self._changed = threading.Condition()

    def start(self, work: Work, when_over: Work) -> bool:
        """Run ``work`` in a thread, in this one's context; False where none is free. ``when_over`` is called when that
        thread is free again.

        False as well where another thread would not see what this one does: in a transaction that others began, as in a
        ``TestCase``, and with SQLite in memory, whose connections lock each other out of whole tables.
        """
        conn = connection()
        if conn.in_atomic_block or (conn.vendor == "sqlite" and conn.is_in_memory_db()):  # type: ignore[attr-defined]
            return False
        with self._changed:
            thread = self._idle.pop() if self._idle else None
            if thread is None and self._count >= get_settings().BRANCH_THREADS:
                return False
            if thread is None:
                thread = _Thread(self)
                try:
                    thread.start()
                except RuntimeError:
                    logger.warning("no thread could be started; a branch runs in that of its workflow")
                    return False
                self._count += 1
        thread.inbox.put((partial(contextvars.copy_context().run, work), when_over))
        return True

    def dismiss(self) -> None:
        """Return when no thread is left, with all connections closed: for who cannot wait until they are tired."""
        with self._changed:
            self._is_closing = True
            for thread in self._idle:
                thread.inbox.put(None)
            self._idle.clear()
            self._changed.wait_for(lambda: not self._count, timeout=IDLE_SECONDS)
            self._is_closing = False

    # In such a thread ------------------------------------------------------------------------

    def is_idle(self, thread: _Thread) -> None:
        with self._changed:
            if self._is_closing:
                thread.inbox.put(None)
            else:
                self._idle.append(thread)

    def may_end(self, thread: _Thread) -> bool:
        """False where it was given work just now."""
        with self._changed:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            return True

    def has_ended(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()


class _Thread(threading.Thread):
    def __init__(self, threads: BranchThreads) -> None:
        super().__init__(name="rivet-branch", daemon=True)
        self.inbox: SimpleQueue[tuple[Work, Work] | None] = SimpleQueue()
        self._threads = threads

    def run(self) -> None:
        try:
            while (job := self._next()) is not None:
                work, when_over = job
                try:
                    self._do(work)
                except BaseException:
                    logger.exception("a branch left its thread by an error, which it should have kept")
                self._threads.is_idle(self)
                when_over()
                del job, work, when_over
        finally:
            connections.close_all()
            self._threads.has_ended()

    def _do(self, work: Work) -> None:
        with suppress(Error):  # whatever is wrong with a connection, the branch finds out
            make_ready()
        work()
        if psycopg_pool():
            connections.close_all()  # another one is had at once

    def _next(self) -> tuple[Work, Work] | None:
        try:
            return self.inbox.get(timeout=IDLE_SECONDS)
        except Empty:
            return None if self._threads.may_end(self) else self.inbox.get()


threads = BranchThreads()
