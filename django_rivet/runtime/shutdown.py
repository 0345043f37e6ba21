"""Whether this worker is on its way out: then a running actor is handed over at its next boundary."""

from __future__ import annotations

import mmap

# Shared with the children that a prefork worker forks: the signal reaches the parent, the actors run in them.
_requested = mmap.mmap(-1, 1)


def request() -> None:
    """The worker was told to stop."""
    _requested[0] = 1


def is_requested() -> bool:
    return _requested[0] == 1


def withdraw() -> None:
    """A worker begins; for processes that have seen one end before."""
    _requested[0] = 0
