"""Time limits of bodies."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

from django_rivet.engine.exceptions import StepTimeoutError
from django_rivet.runtime.beside import CutOff, current_attempt
from django_rivet.store.cutting import Cutter
from django_rivet.store.database import abandon_queries

AGAIN_SECONDS = 0.25
"""A broad ``except`` swallows one interruption, but not one after another. They must not come faster than psycopg looks
for signals while it waits (every 0.1 s): each one begins that wait anew.
"""


STUBBORN_SECONDS = 5.0
"""A body that swallows even these interruptions for so long ends the process, where another one takes its place."""

logger = logging.getLogger(__name__)

_process_is_replaceable = False


def process_is_replaceable() -> None:
    """This is the child of a prefork worker: where it ends, the worker starts another."""
    global _process_is_replaceable
    _process_is_replaceable = True


class _OutOfTime(BaseException):
    """Raised inside a body by the timer. It lies outside ``Exception``: let it pass."""


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise ``StepTimeoutError`` where the block takes longer than ``seconds``; 0 or less: no limit.

    In the main thread of a process (prefork and solo workers) the block is stopped by a signal, again and again
    until it is left; a prefork process ends where that never happens. In the threads of a worker it is left behind,
    cut off (``beside``). In other threads, and in transactions that others began, the block runs to its end, and then
    its result is dropped for the same error.
    """
    if seconds <= 0:
        attempt = current_attempt()
        with attempt.limited(math.inf, what) if attempt is not None else nullcontext():
            yield
        return
    started = time.monotonic()
    try:
        with _limit(seconds, what):
            yield
    except (_OutOfTime, CutOff):
        abandon_queries()
        raise StepTimeoutError(f"{what} ran longer than {seconds:g} s") from None
    except Exception as error:
        if time.monotonic() - started >= seconds:
            raise StepTimeoutError(f"{what} ran longer than {seconds:g} s") from error
        raise
    if time.monotonic() - started >= seconds:
        raise StepTimeoutError(f"{what} ran longer than {seconds:g} s; its result was dropped")


# Below: how it is done ---------------------------------------------------------------------------


def _limit(seconds: float, what: str) -> AbstractContextManager[None]:
    if (attempt := current_attempt()) is not None:
        return attempt.limited(seconds, what)
    return _alarm(seconds, what) if threading.current_thread() is threading.main_thread() else nullcontext()


@contextmanager
def _alarm(seconds: float, what: str) -> Iterator[None]:
    gives_up = time.monotonic() + seconds + STUBBORN_SECONDS

    def refuse() -> None:
        raise CutOff(f"{what} is past its time limit of {seconds:g} s: nothing of it is kept")

    cutter = Cutter(refuse)

    def ring(signum: int, frame: FrameType | None) -> None:
        if _process_is_replaceable and time.monotonic() >= gives_up:
            logger.critical("%s swallows its time-out; the worker process ends for it", what)
            os._exit(1)
        cutter.cut()
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    outer_left, outer_again = signal.getitimer(signal.ITIMER_REAL)
    started = time.monotonic()
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
            yield
        finally:
            # Until this line has run the timer may ring once more; then that interruption wins, which is right.
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)
            cutter.end()
        if outer_left:
            # A limit of somebody else (a test runner's, an outer step's) goes on where it stood.
            passed = time.monotonic() - started
            signal.setitimer(signal.ITIMER_REAL, max(0.001, outer_left - passed), outer_again)
