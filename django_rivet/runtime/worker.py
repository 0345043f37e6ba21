"""Who drives, and how it waits."""

from __future__ import annotations

import math
import os
import socket
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from django_rivet.runtime import shutdown
from django_rivet.runtime.heartbeat import heartbeat
from django_rivet.store.journal import Lease


@dataclass(frozen=True)
class Worker:
    """Who drives, and how it waits."""

    name: str
    dead: str = ""
    """A worker whose leases count as run out."""
    may_pause: bool = True
    """Whether short waits are spent in memory."""
    waits_in_line: bool = True
    """Whether an actor of a type with ``max_running`` has to be the next one; a free slot is needed in any case."""
    slice_ends: float = math.inf
    """On this process's monotonic clock: an actor that is driven several times in a row has one slice for all."""
    evicted: Callable[[], bool] = lambda: False
    keep_alive: Callable[[Lease], AbstractContextManager[None]] = heartbeat.of


def this_worker() -> Worker:
    """A worker named after this process; names are for people, ownership is the epoch's."""
    name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    return Worker(name, evicted=shutdown.is_requested)


def in_process_worker(name: str) -> Worker:
    """A worker that never sleeps and needs no heartbeat: tests drive with it, which actor they like."""
    return Worker(name, dead=name, may_pause=False, waits_in_line=False, keep_alive=lambda lease: nullcontext())
