"""The threads of a server process in which user code runs for connections, so that it holds up no events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import close_old_connections

THREADS = 8
"""Each has a database connection of its own."""

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises. Who is cancelled leaves it to run to its end."""
    return await asyncio.get_running_loop().run_in_executor(_pool, _run, work)


# Below: how it is done ---------------------------------------------------------------------------

# It starts no thread before there is work, so none is lost in a fork.
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="rivet-live")


def _run(work: Callable[[], T]) -> T:
    # As Django does it around each request.
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()
