"""One pass over the workflow function: what all of its contexts share, and the guard around every verb."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, cast

from django_rivet.engine.current import current_strand
from django_rivet.engine.exceptions import EntryInProgressError, WorkflowUsageError
from django_rivet.engine.history import History
from django_rivet.engine.ports import Host
from django_rivet.engine.suspend import NOTHING_LANDS, RaceLost, Unwind


class Guarded(Protocol):
    """A context, as far as the guard looks at it."""

    label: str
    open: str | None
    ended: bool

    def close_left_loop(self) -> None:
        """Note that a loop which was left by ``break`` is over."""


def breaks_off(reason: BaseException) -> bool:
    """Whether it is unknown what was committed, or nothing may be any more: that ends the pass, whoever has won."""
    return isinstance(reason, NOTHING_LANDS) or not isinstance(reason, (Exception, Unwind))


class Losing(Protocol):
    """Branches, as far as the race around them looks at them."""

    def lose(self) -> None:
        """The branch that they belong to has lost: all of them stop."""


class Walk:
    """The host, the history, and whether the pass is on its way out; for a branch of a join one of its own."""

    def __init__(self, host: Host, history: History, around: Walk | None = None) -> None:
        self.host = host
        self.history = history
        self.around = around
        """That of the workflow, or branch, whose join this is a branch of."""
        self.trunk: Walk = around.trunk if around is not None else self
        """That of the workflow function itself."""
        self.halted: BaseException | None = None
        """Why the branches of its join are to stop at their next entries."""
        self.gathering: Losing | None = None
        """Its join, or race, whose branches are running."""
        self.unwinding: BaseException | None = None
        self.is_over = False
        """The workflow function was left: nothing counts any more that is done with what it was given."""
        self._thread = threading.get_ident()

    def stop(self, reason: BaseException) -> BaseException:
        """From now on every verb raises ``reason``, whatever the workflow does with it."""
        if self.unwinding is None or (self.has_lost and breaks_off(reason)):
            self.unwinding = reason
        return self.unwinding

    def refuse_unwinding(self) -> None:
        """Whatever user code raised instead: a pass on its way out neither catches nor records anything."""
        if self.unwinding is not None:
            raise self.unwinding

    @property
    def has_lost(self) -> bool:
        """Whether another branch has won a race that this is part of."""
        return any(isinstance(walk.unwinding, RaceLost) for walk in (self, *self._walks_around))

    def refuse_interruption(self) -> None:
        for around in self._walks_around:
            if around.halted is not None:
                raise around.halted
        if self.has_lost:
            raise RaceLost
        interruption = self.host.interruption()
        if interruption is not None:
            raise interruption

    @contextmanager
    def guarded(self, scoped: Guarded, *, interruptible: bool = True) -> Iterator[None]:
        with self.stopping():
            self._refuse_misuse(scoped)
            if interruptible:
                self.refuse_interruption()
            yield

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """What the workflow must not get past in this block ends the pass."""
        self.refuse_unwinding()
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, WorkflowUsageError):
                # Whoever uses the context of another branch must not get past it either.
                user = current_strand()
                if user is not None and user is not self:
                    user.stop(error)
                raise self.stop(error) from error.__cause__
            raise

    @property
    def _walks_around(self) -> Iterator[Walk]:
        walk = self.around
        while walk is not None:
            yield walk
            walk = walk.around

    def _refuse_misuse(self, scoped: Guarded) -> None:
        if threading.get_ident() != self._thread:
            raise EntryInProgressError(
                f"the context of {scoped.label} was used in another thread than its own: a workflow does one thing "
                "after another, but for the branches of ctx.join, which use the context that they are handed"
            )
        if scoped.ended:
            raise EntryInProgressError(f"{scoped.label} has ended; its context cannot be used any more")
        if scoped.open is not None:
            raise EntryInProgressError(
                f"{scoped.open} is unfinished: inside it, use the context that it hands you; "
                "a step's body calls no verbs at all"
            )
        scoped.close_left_loop()


VerbT = TypeVar("VerbT", bound=Callable[..., Any])


def verb(method: VerbT) -> VerbT:
    """A method that users call on a context."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.walk.guarded(self):
            return method(self, *args, **kwargs)

    return cast("VerbT", guarded)
