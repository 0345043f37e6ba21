"""Who may use the history: of the branches that run at the same time, one after another.

Workflow code, and all that the engine does in memory, runs with the baton in hand. It is laid down where a branch may
wait: for a body, for a lock of the database, for other branches. Nobody waits for such a lock with the baton in hand:
who holds the lock may be waiting for the baton.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class BatonWithdrawnError(BaseException):
    """The pass was left while this branch was running; nothing that it does counts any more."""


class Baton:
    """Of one pass. As long as that has no branches there is nobody to hand it to, and all of this does nothing.

    Who has stood in line the longest is handed it next, so branches begin in the order in which they are started.
    """

    def __init__(self) -> None:
        self._line: deque[threading.Lock] = deque()
        self._is_free = True
        self._mutex = threading.Lock()
        self._is_in_use = False
        self._is_withdrawn = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """There are branches in this block; it is entered with the baton in hand."""
        if self._is_in_use:
            yield
            return
        self._is_in_use, self._is_free = True, False
        try:
            yield
        finally:
            # Whoever is still running after a withdrawal goes on asking for it.
            self._is_in_use = self._is_withdrawn
            self._hand_on()

    @contextmanager
    def taken(self, place: threading.Lock | None = None) -> Iterator[None]:
        """By somebody who does not have it, and may have a place in line already."""
        if not self._is_in_use:
            yield
            return
        self._await(place or self.stand_in_line())
        try:
            self._refuse_withdrawn()
            yield
        finally:
            self._hand_on()

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
        self._hand_on()
        try:
            yield
        finally:
            self._await(self.stand_in_line())

    def withdraw(self) -> None:
        """The pass is left although branches are running: none of them gets the baton again."""
        self._is_withdrawn = True

    def stand_in_line(self) -> threading.Lock:
        """A place, whose lock is released when its turn has come."""
        place = threading.Lock()
        place.acquire()
        with self._mutex:
            if self._is_free:
                self._is_free = False
                place.release()
            else:
                self._line.append(place)
        return place

    def leave_line(self, place: threading.Lock) -> None:
        with self._mutex:
            if place in self._line:
                self._line.remove(place)
                return
        self._hand_on()

    # Below: how it is done -------------------------------------------------------------------

    def _await(self, place: threading.Lock) -> None:
        try:
            place.acquire()
        except BaseException:
            # A signal that ends this thread: those behind it must not wait for ever.
            self.leave_line(place)
            raise

    def _hand_on(self) -> None:
        with self._mutex:
            if self._line:
                self._line.popleft().release()
            else:
                self._is_free = True

    def _refuse_withdrawn(self) -> None:
        if self._is_withdrawn:
            raise BatonWithdrawnError
