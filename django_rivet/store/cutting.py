"""The connections of a body that a signal stops: from then on nothing that it does with them lands.

A body in another thread is cut off by ending its sessions (``lending``). Here the signal's handler runs in the middle
of whatever the body does, a statement perhaps, so that its sessions cannot be ended at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

UNDOING = ("ROLLBACK TO", "RELEASE")
"""Statements by which blocks that a transaction is undone with are left. What they end is inside of it."""


class Cutter:
    """Of the connections of this thread, as they stand before the body begins."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        """``refuse`` raises what the body is to get for each statement that it still tries."""
        self._refuse = refuse
        self._dropped: list[tuple[BaseDatabaseWrapper, Any]] = []
        # A transaction that was open before is undone by whoever began it.
        self._around = {each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block}

    def cut(self) -> None:
        """In the signal's handler, which may be interrupted by itself; again where the body has begun something new."""
        for each in connections.all():
            if self._guard not in each.execute_wrappers:
                # In front, because whoever put one of his own behind it takes the last one away.
                each.execute_wrappers.insert(0, self._guard)
            if each.in_atomic_block and each.alias not in self._around and not each.closed_in_transaction:
                # Django then leaves all blocks without a commit, as after a close() inside of them.
                each.closed_in_transaction = each.needs_rollback = True
                self._dropped.append((each, each.connection))

    def end(self) -> None:
        """When the body has been left."""
        for each in connections.all(initialized_only=True):
            while self._guard in each.execute_wrappers:
                each.execute_wrappers.remove(self._guard)
        for each, driver in self._dropped:
            current, each.connection = each.connection, driver
            each.closed_in_transaction = False
            with suppress(Error):
                each.close()  # which may mean to give it back to a pool
            each.connection = current

    # Below: how it is done -------------------------------------------------------------------

    def _guard(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if not str(sql).startswith(UNDOING):
            self._refuse()
        return execute(sql, params, many, context)
