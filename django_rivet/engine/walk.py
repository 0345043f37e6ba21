"""One pass over the workflow function: what all of its contexts share, and the guard around every verb."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, cast

from django_rivet.engine.exceptions import EntryInProgressError, WorkflowUsageError
from django_rivet.engine.history import History
from django_rivet.engine.ports import Host


class Guarded(Protocol):
    """A context, as far as the guard looks at it."""

    label: str
    open: str | None
    ended: bool

    def close_left_loop(self) -> None:
        """Note that a loop which was left by ``break`` is over."""


class Walk:
    """The host, the history, and whether the pass is on its way out."""

    def __init__(self, host: Host, history: History) -> None:
        self.host = host
        self.history = history
        self.unwinding: BaseException | None = None
        self.is_over = False
        """The workflow function was left: nothing counts any more that is done with what it was given."""
        self._thread = threading.get_ident()

    def stop(self, reason: BaseException) -> BaseException:
        """From now on every verb raises ``reason``, whatever the workflow does with it."""
        if self.unwinding is None:
            self.unwinding = reason
        return self.unwinding

    def refuse_unwinding(self) -> None:
        """Whatever user code raised instead: a pass on its way out neither catches nor records anything."""
        if self.unwinding is not None:
            raise self.unwinding

    def refuse_interruption(self) -> None:
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
                raise self.stop(error) from error.__cause__
            raise

    def _refuse_misuse(self, scoped: Guarded) -> None:
        if threading.get_ident() != self._thread:
            raise EntryInProgressError(
                "a context was used in another thread than its workflow's: a workflow does one thing after another"
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
