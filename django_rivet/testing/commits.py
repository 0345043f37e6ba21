"""Count the commits that drives make, and die at one of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django_rivet.store.transactions import observers


class SimulatedCrash(BaseException):
    """The process is dead, as far as the engine can tell. Outside ``Exception``, so nothing handles it by accident."""


class CommitCounter:
    """Counts what ``drive()`` commits: claims, records and releases."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def before(self) -> None:
        with self._lock:
            self.count += 1

    def after(self) -> None:
        pass


class CrashPoint:
    """Dies at the n-th commit."""

    def __init__(self, n: int, after: bool) -> None:
        self.count = 0
        self.crashed = False
        """Whether the commit was reached."""
        self._n = n
        self._after = after
        self._lock = threading.Lock()
        # Branches of a join commit at the same time: another one may be counted between this one's two moments.
        self._of_thread = threading.local()

    def before(self) -> None:
        with self._lock:
            self.count += 1
            self._of_thread.number = self.count
        if self._of_thread.number == self._n and not self._after:
            self._die()

    def after(self) -> None:
        if self._of_thread.number == self._n and self._after and not self.crashed:
            self._die()

    def _die(self) -> None:
        self.crashed = True
        raise SimulatedCrash(
            f"commit {self._n} {'happened, then' if self._after else 'did not happen:'} the process died"
        )


@contextmanager
def count_commits() -> Iterator[CommitCounter]:
    """``with count_commits() as commits: drive(); assert commits.count == 3``."""
    counter = CommitCounter()
    observers.append(counter)
    try:
        yield counter
    finally:
        observers.remove(counter)


@contextmanager
def crash_at(n: int, after: bool = False) -> Iterator[CrashPoint]:
    """The n-th commit (from 1) of the drives inside does not happen, or with ``after=True`` happens, and ``drive()``
    dies there with ``SimulatedCrash``. The next ``drive()`` takes the actor over without waiting for the lease.
    """
    if n < 1:
        raise ValueError(f"commits are counted from 1, not {n}")
    point = CrashPoint(n, after)
    observers.append(point)
    try:
        yield point
    finally:
        observers.remove(point)
