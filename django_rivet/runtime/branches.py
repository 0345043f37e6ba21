"""The threads of branches: as many as ``BRANCH_THREADS`` in one process, each with database connections of its own."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable

from django.db import connections

from django_rivet.conf import get_settings
from django_rivet.store.database import connection

logger = logging.getLogger(__name__)


class BranchThreads:
    """A thread ends with its branch, and closes its connections: between two joins there is none."""

    def __init__(self) -> None:
        self._running = 0
        self._lock = threading.Lock()

    def start(self, work: Callable[[], None]) -> bool:
        """Run ``work`` in a thread, in this one's context; False where none is free.

        False as well where another thread would not see what this one does: in a transaction that others began, as in a
        ``TestCase``, and with SQLite in memory, whose connections lock each other out of whole tables.
        """
        conn = connection()
        if conn.in_atomic_block or (conn.vendor == "sqlite" and conn.is_in_memory_db()):  # type: ignore[attr-defined]
            return False
        with self._lock:
            if self._running >= get_settings().BRANCH_THREADS:
                return False
            self._running += 1
        context = contextvars.copy_context()
        try:
            threading.Thread(target=self._run, args=(context, work), name="rivet-branch", daemon=True).start()
        except RuntimeError:
            logger.warning("no thread could be started; the branch runs in that of its workflow")
            self._has_ended()
            return False
        return True

    # Below: how it is done -------------------------------------------------------------------

    def _run(self, context: contextvars.Context, work: Callable[[], None]) -> None:
        try:
            context.run(work)
        finally:
            connections.close_all()
            self._has_ended()

    def _has_ended(self) -> None:
        with self._lock:
            self._running -= 1


threads = BranchThreads()
