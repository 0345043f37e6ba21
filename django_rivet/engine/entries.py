"""The nouns: what a history is made of. All records are frozen; a change is a ``replace()``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    STEP = "step"
    LOOP = "loop"
    ITERATION = "iteration"
    BLOCK = "block"
    JOIN = "join"
    RACE = "race"
    BRANCH = "branch"
    SLEEP = "sleep"
    MESSAGE = "message"
    CHECKPOINT = "checkpoint"
    VALUE = "value"


FORKS = (Kind.JOIN, Kind.RACE)
"""What has branches."""


class EntryStatus(StrEnum):
    PENDING = "pending"
    """A wait that is not over, or a failed entry that ``recover()`` has put back."""
    RUNNING = "running"
    """Begun and not ended: an open loop, or a body whose start is on record."""
    RETRYING = "retrying"
    """A step that failed and will be tried again."""
    OPEN = "open"
    """A wait whose messages were received, and are still to be completed."""
    COMPLETED = "completed"
    FAILED = "failed"
    ROLLING_BACK = "rolling_back"
    """A block that failed, or a race that is decided, and whose compensations are not all done."""
    CANCELLED = "cancelled"
    """A branch that has lost its race, and what had not ended in it."""
    PLACEHOLDER = "placeholder"
    """A step that was compensated and runs again when it is reached."""


class FailureKind(StrEnum):
    CRITICAL = "critical"
    TIMEOUT = "timeout"
    EXHAUSTED = "exhausted"
    ROLLBACK = "rollback"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as data; ``str()`` holds name and message."""

    name: str
    message: str
    stack: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "message": self.message,
            "stack": self.stack,
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that ``try_step`` or ``try_block`` gives back as data."""

    error: ErrorInfo
    kind: str | None = None
    """Why the step ended: a ``FailureKind``; None for what did not come from a step."""
    step_name: str | None = None
    attempts: int = 0
    source: str = "step"
    """``step``, ``join``, ``race``, ``queue`` or ``block``; ``branch`` for what a branch's own code raised."""
    name: str | None = None
    """The name of the entry, block or branch that failed."""
    step: Failure | None = None
    """The failure of the step, where ``source`` is ``step``."""


@dataclass(frozen=True, slots=True)
class Result:
    """What ``try_step`` and ``try_block`` give back."""

    ok: bool
    value: Any = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded thing that a workflow did or waits for."""

    path: str
    kind: Kind
    status: EntryStatus
    seq: int
    """The order in which things happened in this actor."""
    attempts: int = 0
    """Attempts that began, as far as is known."""
    interruptions: int = 0
    """Those of them that a dying worker cut off: they are not charged."""
    run: int = 0
    """How often the step was compensated; part of its idempotency key."""
    atomic: bool = True
    binds: bool = True
    """False for what was recorded after an entry that ``recover()`` put back."""
    output: str | None = None
    """Codec text."""
    error: ErrorInfo | None = None
    failure_kind: FailureKind | None = None
    due_at: datetime | None = None
    """When a sleep, a retry or a receive's deadline is due."""
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def charged(self) -> int:
        """Attempts that count against ``max_retries``."""
        return self.attempts - self.interruptions


class UndoStatus(StrEnum):
    OWED = "owed"
    COMPLETED = "completed"
    FAILED = "failed"
    SETTLED = "settled"
    """Its scope ended well: it will never be undone."""
    SKIPPED = "skipped"
    """An operator decided that it will not be undone."""
    CONFIRMED = "confirmed"
    """An operator undid it by hand."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """The rollback handler that a completed step registered, and how far it is."""

    path: str
    """Of the step it undoes."""
    run: int
    scope: str
    """The undo scope that owns it."""
    seq: int
    """Handlers run in descending order of it."""
    handler: str
    """``self:method`` or ``module:function``."""
    args: str
    """Codec text of ``[args, kwargs]``."""
    status: UndoStatus = UndoStatus.OWED
    output: str | None = None
    """The step's output, codec text."""
    outcome: str = "completed"
    """``completed``, or ``unknown`` where the step began and has no recorded output."""
    on_failure: str = "stop"
    """``stop`` or ``continue``: whether older handlers run after this one is given up."""
    atomic: bool = True
    max_retries: int = 3
    backoff_base: float = 0.1
    backoff_max: float = 30.0
    jitter: float = 0.1
    timeout: float = 30.0
    attempts: int = 0
    error: ErrorInfo | None = None
    note: str | None = None
    """Why an operator skipped it, or how it was undone by hand."""
    decided_by: str | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as the mailbox hands it to the engine."""

    id: int
    queue: str
    body: str
    """Codec text."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Completion:
    """A message was completed, and this is the answer to whoever waits for it."""

    path: str
    """Of the wait that received it."""
    message_id: int
    response: str
    """Codec text."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the workflow sees it."""

    id: int
    name: str
    body: Any
    created_at: datetime


@dataclass(frozen=True, slots=True)
class CompletableMessage(Message):
    """A message that stays open until it is completed."""

    _complete: Callable[[Any], None] = field(repr=False, compare=False)

    def complete(self, response: Any = None) -> None:
        """Answer whoever waits for this message, and let the workflow ask for the next one.

        In workflow code it is written with the next record; in a step's body with the record of that step, or not at
        all where that attempt fails. On a replay it does nothing. ``InvalidInputError`` where the response does not
        fit the queue's ``response_type``: the message stays open. A second call raises
        ``MessageAlreadyCompletedError``.
        """
        self._complete(response)
