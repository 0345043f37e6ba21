"""``Meta.run_timeout``: how long a run may take, and what that means for its bodies and its waits.

The start is stored and the limit is the class's, so a deploy that changes the option changes it for running actors.
It is enforced where the workflow would do something new: what is on record is replayed first, so code that does not
fit the history is found out before, and a workflow that has nothing left to do ends well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django_rivet.actors.registry import registry
from django_rivet.engine.entries import Entry, EntryStatus, FailureKind
from django_rivet.engine.exceptions import StepTimeoutError
from django_rivet.engine.ports import StepCall
from django_rivet.store.runs import BROUGHT_FORWARD_AT_ONCE, bring_forward

SHORTEST_BODY_SECONDS = 0.5
"""A body that begins just before the end gets as long as this: with less it could only be cut off."""


@dataclass(frozen=True, slots=True)
class RunLimit:
    """The limit of one run, as of today's class."""

    seconds: float | None
    """None: no limit."""
    started_at: datetime

    @property
    def deadline(self) -> datetime | None:
        return None if self.seconds is None else self.started_at + timedelta(seconds=self.seconds)

    def is_over(self, now: datetime) -> bool:
        return self.deadline is not None and now >= self.deadline

    def wake_at(self, due: datetime | None) -> datetime | None:
        """When an actor has to be looked at that waits until ``due``; None: for as long as it takes."""
        if due is None or self.deadline is None:
            return due or self.deadline
        return min(due, self.deadline)

    def of_body(self, timeout: float, now: datetime) -> tuple[float, bool]:
        """The time limit of a body with that ``timeout`` (0: none), and whether it is the run's instead of its own."""
        if self.deadline is None:
            return timeout, False
        left = max((self.deadline - now).total_seconds(), SHORTEST_BODY_SECONDS)
        return (timeout, False) if 0 < timeout <= left else (left, True)


def cut_off(call: StepCall, limit: float) -> Entry:
    """The record of an attempt that the end of its run has stopped: to be noted, and written with that end.

    Were it written before, a workflow that is driven again after a crash could catch it and go on.
    """
    error = StepTimeoutError(f"step {call.entry.name!r} was cut off after {limit:.1f} s: the time of its run is over")
    failed = call.failed(error).entry
    return replace(failed, status=EntryStatus.FAILED, failure_kind=FailureKind.TIMEOUT, due_at=None)


def wake_overdue_runs() -> bool:
    """Make those due that sleep past a limit which a deploy has shortened or brought; False where there are more.

    Nobody else has to be woken for their limit: no sleep is written to last longer than it.
    """
    limits = {d.type_name: d.meta.run_timeout for d in registry if d.meta.run_timeout is not None}
    woken = [bring_forward(type_name, limit) for type_name, limit in limits.items()]
    return all(count < BROUGHT_FORWARD_AT_ONCE for count in woken)
