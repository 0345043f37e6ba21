"""What users wrote, run in a thread beside the one that drives, which leaves it behind when its time is over.

A thread cannot be stopped. It can be cut off: its database sessions are ended, and whatever it asks of a database
from then on is refused, so nothing of it lands any more.
"""

from __future__ import annotations

import contextvars
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from django.db import connections

from django_rivet.engine.suspend import RaceLost
from django_rivet.store.database import alias
from django_rivet.store.lending import Loan

logger = logging.getLogger(__name__)

T = TypeVar("T")


class CutOff(BaseException):
    """Raised in a body that runs on after its time-out, when it asks for the database. Let it pass."""


class LeftBehindError(Exception):
    """Raised in the thread that drives: it goes on without what it waited for."""


def beside(work: Callable[[], T], limit: float, lifeline: Lifeline | None = None) -> T:
    """What ``work`` returns or raises; ``LeftBehindError`` where a time limit inside it is passed.

    ``limit``: the seconds that this will be; 0 or less: there is none. ``work`` borrows this thread's connections and
    context. In the main thread, where a signal can stop it, and in a transaction that others began, it simply runs.
    ``lifeline``: somebody may want to have this thread out of a body, however long that may take.
    """
    is_endless = limit <= 0 and lifeline is None
    if is_endless or threading.current_thread() is threading.main_thread() or connections[alias()].in_atomic_block:
        return work()
    attempt = Attempt(work)
    with lifeline.tied_to(attempt) if lifeline is not None else nullcontext():
        partner = _partner()
        partner.take(attempt)
        is_over = attempt.wait(limit if limit > 0 else math.inf)
    if is_over:
        attempt.loan.end()
        return attempt.outcome()
    name = partner.leave()
    attempt.loan.abandon()
    logger.warning("%s is left behind in thread %s: it runs on, cut off", attempt.what, name)
    if attempt.is_unwanted:
        raise RaceLost
    raise LeftBehindError(f"{attempt.what} ran longer than {attempt.seconds:g} s") from None


class Lifeline:
    """By which a branch that has lost its race is taken out of its bodies."""

    def __init__(self) -> None:
        self._is_cut = False
        self._attempt: Attempt[Any] | None = None
        self._lock = threading.Lock()

    @contextmanager
    def tied_to(self, attempt: Attempt[Any]) -> Iterator[None]:
        """Around an attempt; ``RaceLost`` where the line was cut before."""
        with self._lock:
            if self._is_cut:
                attempt.loan.end()
                raise RaceLost
            self._attempt = attempt
        try:
            yield
        finally:
            with self._lock:
                self._attempt = None

    def cut(self) -> None:
        """From another thread. What is past its body, on its way to be committed, is not disturbed."""
        with self._lock:
            self._is_cut = True
            if self._attempt is not None:
                self._attempt.give_up()


class Attempt(Generic[T]):
    """One run of a piece of work: who may still act on it, the thread that runs it or the one that waits."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.loan = Loan()
        self.what = ""
        self.seconds = 0.0
        self.is_void = False
        """The thread that waited has gone on; nothing that the other one does counts."""
        self.is_unwanted = False
        """Its branch has lost a race; as long as no body is running this has no effect."""
        self._work = work
        self._context = contextvars.copy_context()
        self._changed = threading.Condition()
        self._ends: float | None = None
        self._is_over = False
        self._value: T | None = None
        self._error: BaseException | None = None

    # In the thread that runs it --------------------------------------------------------------

    def run(self) -> None:
        try:
            with self.loan.borrowed(self._guard):
                self._value = self._context.run(self._run)
        except BaseException as error:
            self._error = error
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self.is_void:
            self.loan.close()

    @contextmanager
    def limited(self, seconds: float, what: str) -> Iterator[None]:
        """The block may take so long; ``CutOff`` at its end, or before, where it took longer."""
        with self._changed:
            self.what, self.seconds = what, seconds
            self._ends = time.monotonic() + seconds
            self._become_void_if_unwanted()
            self.refuse_void()
        try:
            yield
        finally:
            with self._changed:
                self.refuse_void()
                self._ends = None

    def refuse_void(self) -> None:
        if self.is_void:
            why = "has lost its race" if self.is_unwanted else f"is past its time limit of {self.seconds:g} s"
            raise CutOff(f"{self.what} {why}: nothing of it is kept")

    # In any thread ---------------------------------------------------------------------------

    def give_up(self) -> None:
        """What it does is not wanted any more."""
        with self._changed:
            self.is_unwanted = True
            self._become_void_if_unwanted()

    # In the thread that waits ----------------------------------------------------------------

    def wait(self, limit: float) -> bool:
        """Until it is over: True. Or until its time is: then it is void, and False."""
        with self._changed:
            while not self._is_over:
                if self.is_void:
                    return False
                # It is not told when a limit begins: that would wake it for each step.
                left = limit if self._ends is None else self._ends - time.monotonic()
                if left <= 0:
                    self.is_void = True
                    return False
                self._changed.wait(None if left == math.inf else left)
            # A body may have heard that it lost before this thread did.
            return not self.is_void

    def outcome(self) -> T:
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback leads back here
        return self._value  # type: ignore[return-value]  # it has returned

    # Below: how it is done -------------------------------------------------------------------

    def _become_void_if_unwanted(self) -> None:
        if self.is_unwanted and self._ends is not None:
            self.is_void = True
            self._changed.notify()

    def _run(self) -> T:
        _attempt.set(self)
        return self._work()

    def _guard(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self.refuse_void()
        return execute(sql, params, many, context)


def current_attempt() -> Attempt[Any] | None:
    """The attempt that this code belongs to; None in a thread that can be stopped, or need not be."""
    return _attempt.get()


# Below: how it is done ---------------------------------------------------------------------------

_attempt: ContextVar[Attempt[Any] | None] = ContextVar("django_rivet_attempt", default=None)


class _Partner:
    """A thread that runs what one other thread hands it; it lives as long as that one, or until it is left behind."""

    def __init__(self) -> None:
        work: SimpleQueue[Attempt[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=_serve, args=(work,), name="rivet-body", daemon=True)
        self._thread.start()
        self.take = work.put
        weakref.finalize(self, work.put, None)

    def leave(self) -> str:
        """It ends when its work does; returns the name by which a look at the threads finds it."""
        _local.partner = None
        self._thread.name = f"rivet-left-behind-{self._thread.native_id}"
        return self._thread.name


class _Local(threading.local):
    partner: _Partner | None = None


_local = _Local()


def _partner() -> _Partner:
    if _local.partner is None:
        _local.partner = _Partner()
    return _local.partner


def _serve(work: SimpleQueue[Attempt[Any] | None]) -> None:
    while (attempt := work.get()) is not None:
        attempt.run()
        if attempt.is_void:
            return
        del attempt
