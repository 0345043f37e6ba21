"""What the engine asks of the floors above. ``runtime/host.py`` answers in production."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django_rivet.engine.current import Completions
from django_rivet.engine.decision import FailedAttempt
from django_rivet.engine.entries import Compensation, Entry, ReceivedMessage
from django_rivet.engine.history import History
from django_rivet.engine.notes import Changes
from django_rivet.engine.options import StepOptions
from django_rivet.engine.suspend import Unwind


@dataclass(frozen=True, slots=True)
class StepCall:
    """One attempt of a step, ready to run."""

    entry: Entry
    """Its record with this attempt counted."""
    options: StepOptions
    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    completions: Completions
    """Where the body notes the messages that it completes; ``succeeded`` adds them to the history."""
    start: Callable[[], Changes]
    """What to commit before the body runs, where ``options.starts_on_record``."""
    succeeded: Callable[[Any], Changes]
    """What a returned value adds to the history; raises ``OutputNotSerializableError``."""
    failed: Callable[[BaseException], FailedAttempt]


class Host(Protocol):
    """One drive of one actor by one worker.

    Where a method may wait, for a body or for a lock of the database, it lays the history's baton down meanwhile.
    """

    workflow_id: str
    actor: Any
    max_takeovers: int
    max_output_bytes: int
    step_defaults: Mapping[str, Any]

    @property
    def takeovers(self) -> int:
        """Workers in a row that died while driving this actor; 0 once this drive has got anywhere."""

    def now(self) -> datetime:
        """The database's clock; it never goes backwards within a drive."""

    def chance(self) -> float:
        """A number from 0 to 1 for jitter."""

    def interruption(self) -> Unwind | None:
        """Why the pass should end before the next entry: a cancellation, the end of run or slice, a shutdown.

        What a block that failed has begun to undo is undone first: a cancellation does not stop that.
        """

    def is_evicted(self) -> bool:
        """Whether this worker wants to hand the actor over; may be asked from a body."""

    def pause_until(self, due: datetime) -> bool:
        """Wait in memory where that is short enough; False where the actor should wait in the database."""

    def write(self) -> None:
        """Commit all notes now, where anything may be. Nothing that the workflow has read may be handed to the outside
        before.
        """

    def of_branch(self, history: History) -> Host:
        """The same for a branch of a join: its notes are those of ``history``."""

    def leave_body(self) -> None:
        """For a branch that has lost its race: if a body of it is running, it is cut off, and ``RaceLost`` raised."""

    def run_beside(self, work: Callable[[], None], when_over: Callable[[], None]) -> bool:
        """Run this in another thread, at the same time; False, and nothing done, where that cannot be now.

        ``when_over`` is called in any case, and when that thread is free again.
        """

    def run_step(self, call: StepCall) -> BaseException | None:
        """Run the body and commit its record with all notes, in one transaction where it is atomic.

        Returns the error where the body failed; then its record, and what the hook did, are committed, and nothing
        else. After either, the history holds the new record.
        """

    def record_failure(self, failed: FailedAttempt) -> None:
        """Commit a failure for which no body ran, and tell the hook, in one transaction."""

    def run_handler(self, compensation: Compensation, cause: Exception) -> None:
        """Run a rollback handler and commit its record; after a failure, the record of that.

        After either, the history holds the new record.
        """

    def peek(self, queues: Sequence[str], count: int, excluding: frozenset[int]) -> list[ReceivedMessage]:
        """The oldest due messages of these queues (of any, where empty), without taking them."""

    def load_body(self, queue: str, body: Any) -> Any:
        """A stored body as the type that the queue declares."""

    def response_text(self, queue: str, response: Any) -> str:
        """A response as it is stored; raises ``InvalidInputError`` where it is not what the queue declares."""

    def refuse_anything_new(self) -> None:
        """Unwind where this pass may only replay, or its time is over."""

    def handler_reference(self, handler: Callable[..., Any]) -> str:
        """The name under which a handler is stored; ``RollbackHandlerError`` where it has none."""
