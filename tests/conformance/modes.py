"""Branches one after another in one thread, as in a ``TestCase``, and in threads of their own."""

from __future__ import annotations

import threading

import pytest

IN_THREADS = "in threads"

IN_BOTH_MODES = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("mode"),
    pytest.mark.parametrize(
        "mode",
        ["in one thread", pytest.param(IN_THREADS, marks=pytest.mark.django_db(transaction=True))],
        indirect=True,
    ),
]
"""The ``pytestmark`` of a module: ``in threads`` commits for real, since threads see nothing else."""

PATIENCE_SECONDS = 30.0


def rendezvous(parties: int) -> threading.Barrier:
    """Where bodies that run at the same time meet; ``BrokenBarrierError`` where they do not."""
    return threading.Barrier(parties, timeout=PATIENCE_SECONDS)


def wait_for(event: threading.Event) -> None:
    """Until another branch has set it."""
    assert event.wait(PATIENCE_SECONDS), "the other branch does not run at the same time"
