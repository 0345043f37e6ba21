"""What a verb answers when it is asked what happens next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_rivet.engine.entries import Entry
from django_rivet.engine.events import StepFailed


@dataclass(frozen=True, slots=True)
class Replay:
    """It happened before: go on with this value."""

    value: Any


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """What a failed attempt leaves behind: its record, and what the error hook is told."""

    entry: Entry
    event: StepFailed


@dataclass(frozen=True, slots=True)
class Refuse:
    """It failed for good: raise this error."""

    error: Exception
    failed: FailedAttempt | None = None
    """To be recorded, and told to the hook, first: it failed just now."""
    record: Entry | None = None
    """To be noted first: it failed before, and now it is known to be for good."""


@dataclass(frozen=True, slots=True)
class Note:
    """Nothing has to run: note the record, it rides with the next commit, and go on with the value."""

    record: Entry
    value: Any = None


@dataclass(frozen=True, slots=True)
class Perform:
    """Run the body; ``entry`` is its record so far, with this attempt counted."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can happen before ``until``, or before a message comes in ``queues``; ``record`` is to be noted first."""

    until: datetime | None = None
    queues: tuple[str, ...] | None = None
    record: Entry | None = None


Decision = Replay | Refuse | Note | Perform | Wait
