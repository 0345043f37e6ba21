"""A worker inside the test's own thread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import overload

from django_rivet.runtime.branches import threads
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.handles import Handle
from django_rivet.runtime.run_limits import wake_overdue_runs
from django_rivet.runtime.waiting import meanwhile
from django_rivet.runtime.worker import in_process_worker
from django_rivet.store.runs import due_actors

BATCH = 100


@overload
def drive(handle: Handle) -> str: ...
@overload
def drive(handle: None = None) -> None: ...
def drive(handle: Handle | None = None) -> str | None:
    """Drive that actor, or every due one, until nothing is due; returns the handle's status.

    Always replays from the database and never sleeps: every wait yields, and ``advance()`` makes it due. Raises
    ``DatabaseFailedError`` where the database failed the engine. A drive that died before is taken over at once.
    """
    name = f"test:{os.getpid()}"
    worker = in_process_worker(name)
    wake_overdue_runs()
    try:
        if handle is not None:
            while drive_once(handle._id, worker):
                pass
            return handle.status
        while sum(drive_once(due.actor_id, worker) for due in due_actors(BATCH, dead=name)):
            pass
        return None
    finally:
        # The test that comes next may have another database, and this one's could not be dropped.
        threads.dismiss()


@contextmanager
def serving() -> Iterator[None]:
    """Inside, ``send_and_wait`` and ``result`` drive every due actor while they wait, in this thread.

    For tests of code that waits: in a test case's transaction no worker could see what is to be done. Time-outs are
    in real seconds, whatever ``advance()`` has done to the engine's clock.
    """
    token = meanwhile.set(drive)
    try:
        yield
    finally:
        meanwhile.reset(token)
