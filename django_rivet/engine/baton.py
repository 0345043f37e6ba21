"""Who may use the history: of the branches that run at the same time, one after another.

Workflow code, and all that the engine does in memory, runs with the baton in hand. It is laid down where a branch may
wait: for a body, for a lock of the database, for other branches. Nobody waits for such a lock with the baton in hand:
who holds the lock may be waiting for the baton.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class BatonWithdrawnError(BaseException):
    """The pass was left while this branch was running; nothing that it does counts any more."""


class Baton:
    """Of one pass. As long as that has no branches there is nobody to hand it to, and all of this does nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_in_use = False
        self._is_withdrawn = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """There are branches in this block; it is entered with the baton in hand."""
        if self._is_in_use:
            yield
            return
        self._lock.acquire()
        self._is_in_use = True
        try:
            yield
        finally:
            # Whoever is still running after a withdrawal goes on asking for it.
            self._is_in_use = self._is_withdrawn
            self._lock.release()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """By somebody who does not have it."""
        if not self._is_in_use:
            yield
            return
        with self._lock:
            self._refuse_withdrawn()
            yield

    @contextmanager
    def laid_down(self) -> Iterator[None]:
        """In this block somebody else may have it."""
        with self.set_aside():
            yield
        self._refuse_withdrawn()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """As ``laid_down``, for who has to go on even after a withdrawal."""
        if not self._is_in_use:
            yield
            return
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def withdraw(self) -> None:
        """The pass is left although branches are running: none of them gets the baton again."""
        self._is_withdrawn = True

    # Below: how it is done -------------------------------------------------------------------

    def _refuse_withdrawn(self) -> None:
        if self._is_withdrawn:
            raise BatonWithdrawnError
