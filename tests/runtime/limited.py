"""An actor with a ``run_timeout``, for a workflow that the test brings along."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.actors.registry import registry
from django_rivet.runtime.run_limits import RunLimit

Run = Callable[[Any, Any], Any]


def limited(run: Run, run_timeout: Any = 60) -> Any:
    """An actor whose workflow is ``run(self, ctx)``; again under the same name, it is the class of the next deploy."""
    timeout = run_timeout

    class Limited(Actor):
        class Meta:
            run_timeout = timeout

        class State:
            log: list[str] = []
            told: list[str] = []

        orders = Queue(str)

        @workflow
        def run(self, ctx):
            return run(self, ctx)

        @run.on_error
        def note(self, event):
            self.state.told.append(f"{event.kind} {event.error.name}")

        def do(self, thing):
            self.state.log.append(thing)
            return thing

        def undo(self, rollback, thing):
            self.state.log.append(f"undo {thing}")

        def undo_later(self, rollback, thing):
            if rollback.attempt == 1:
                raise OSError("busy")
            self.state.log.append(f"undo {thing}")

    return Limited


def sleeps_a_day(self: Any, ctx: Any) -> str:
    ctx.rollback_checkpoint("all")
    ctx.step("book", self.do, "book", rollback=self.undo)
    ctx.sleep("night", 86_400)
    ctx.step("leave", self.do, "leave")
    return "left"


def error_of(actor: Any) -> tuple[str, str]:
    return actor.error.name, actor.error.message


def type_of(actor: Any) -> Any:
    """The class of that name as of now."""
    return registry.get(actor.type)


class Hourglass:
    """The time of a run, by what happens in it instead of by a clock: however slow the machine is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_empty = False
        self._left: float | None = None
        monkeypatch.setattr(RunLimit, "is_over", lambda limit, now: self.is_empty)
        monkeypatch.setattr(RunLimit, "of_body", lambda limit, timeout, now: self._of_body(timeout))

    def turn(self) -> None:
        """A new run."""
        self.is_empty, self._left = False, None

    def nearly_empty(self) -> None:
        """A body that begins now is cut off."""
        self._left = 0.2

    def empty(self) -> None:
        self.is_empty = True

    def endless(self) -> None:
        """A body that lasts longer than the run."""
        self.empty()
        time.sleep(40)

    def _of_body(self, timeout: float) -> tuple[float, bool]:
        return (timeout, False) if self._left is None else (self._left, True)
