"""What the engine asks for, answered with transactions: one drive of one actor by one worker."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, transaction

from django_rivet.actors.actor import Actor
from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.references import reference_of, resolve
from django_rivet.actors.turn import turn_open
from django_rivet.conf import get_settings
from django_rivet.engine import compensation as undo
from django_rivet.engine.current import CurrentStep
from django_rivet.engine.decision import FailedAttempt
from django_rivet.engine.durations import seconds
from django_rivet.engine.entries import Compensation, ReceivedMessage
from django_rivet.engine.events import ErrorEvent
from django_rivet.engine.exceptions import StepInterruptedError
from django_rivet.engine.history import Changes, History
from django_rivet.engine.ports import StepCall
from django_rivet.engine.rollback import Rollback
from django_rivet.engine.suspend import Broken, CancelRequested, HandedOver, Unwind
from django_rivet.runtime.bodies import (
    BodyError,
    call_body,
    errors_of_the_body,
    errors_of_the_database,
    is_conflict,
    tell_hook,
)
from django_rivet.runtime.publisher import publish
from django_rivet.runtime.turn import ReadingTurn, WritingTurn
from django_rivet.store import journal, mailbox
from django_rivet.store.journal import Release
from django_rivet.store.runs import Claim
from django_rivet.store.transactions import Begun, engine_transaction
from django_rivet.store.turns import is_broken

logger = logging.getLogger(__name__)

INLINE_WAIT_SECONDS = 0.1
"""A shorter wait costs less in memory than in the database."""

MAX_RERUNS = 5
"""How often a body is run again, uncharged, after a deadlock or a lock that was not to be had."""


class DriveHost:
    """Answers ``engine.ports.Host``."""

    def __init__(
        self,
        actor: Actor[Any],
        claim: Claim,
        history: History,
        *,
        may_pause: bool = True,
        evicted: Callable[[], bool] = lambda: False,
    ) -> None:
        settings = get_settings()
        self.actor = actor
        self.definition: ActorDefinition = type(actor).definition
        self.workflow_id = actor.id
        self.history = history
        self.lease = claim.lease
        self.takeovers = claim.takeovers
        self.max_takeovers = settings.MAX_TAKEOVERS
        self.max_output_bytes = settings.MAX_OUTPUT_BYTES
        self.step_defaults: Mapping[str, Any] = settings.STEP_DEFAULTS
        self.status = claim.status
        self.request = claim.request
        self.replays_only = False
        """Walk up to where the workflow stands, and execute nothing."""
        self.after_commit: list[ErrorEvent] = []
        """Failures that were recorded; their signals are sent by the drive."""
        self._clock = claim.now, time.monotonic()
        self._slice_ends = time.monotonic() + settings.SLICE_SECONDS
        self._may_pause = may_pause
        self._evicted = evicted
        self._progress = False

    # Time and interruptions ------------------------------------------------------------------

    def now(self) -> datetime:
        at_claim, then = self._clock
        return at_claim + timedelta(seconds=time.monotonic() - then)

    def chance(self) -> float:
        return random.random()  # noqa: S311 - jitter

    def interruption(self) -> Unwind | None:
        if self.replays_only:
            return None
        if self.request and self.status != "rolling_back":
            return CancelRequested(rollback=self.request == "cancel_rollback")
        if self.is_evicted() or time.monotonic() >= self._slice_ends:
            return HandedOver()
        return None

    def is_evicted(self) -> bool:
        return self._evicted()

    def pause_until(self, due: datetime) -> bool:
        left = (due - self.now()).total_seconds()
        if self.replays_only or not self._may_pause or left > INLINE_WAIT_SECONDS:
            return False
        time.sleep(max(0.0, left))
        return True

    # Commits ---------------------------------------------------------------------------------

    def write(self) -> None:
        if self.history.unwritten():
            with errors_of_the_database():
                self._commit()

    def release(self, how: Release, event: ErrorEvent | None = None) -> None:
        """End the drive: all notes, how the actor is left, and the hook's word on ``event``, in one commit."""
        with errors_of_the_database():
            turn = WritingTurn(self.actor)
            with engine_transaction():
                if event is not None:
                    tell_hook(self.actor, event, turn)
                tells = turn.save()
                journal.write_changes(self.lease, self.history.unwritten())
                journal.release(self.lease, how)
            self._committed(Changes(), tells, event)

    def enter_rollback(self, error: str | None, event: ErrorEvent | None) -> None:
        """The workflow failed, or is cancelled, and owes compensations: that is on record before the first runs."""
        self.status = "rolling_back"
        with errors_of_the_database():
            turn = WritingTurn(self.actor)
            with engine_transaction():
                if event is not None:
                    tell_hook(self.actor, event, turn)
                tells = turn.save()
                journal.write_changes(self.lease, self.history.unwritten())
                journal.set_error(self.lease, error)
                self.request = journal.fence(self.lease, self.status)
            self._committed(Changes(), tells, event)

    # Steps -----------------------------------------------------------------------------------

    def run_step(self, call: StepCall) -> BaseException | None:
        if self.replays_only:
            raise CancelRequested(rollback=True)
        options = call.options
        if options.starts_on_record:
            with errors_of_the_database():
                self._commit(call.start(), progress=False)
        elif not options.atomic:
            self.write()
        step = CurrentStep(
            call.entry.name, call.entry.attempts, self._key(call.entry.path, call.entry.run), self.is_evicted
        )
        limit = seconds(options.timeout, "timeout")

        def body() -> Any:
            return call_body(call.function, call.args, call.kwargs, step, limit)

        try:
            if options.atomic:
                self._run_atomic(body, call.succeeded, keeps=options.ephemeral)
            else:
                self._run_outside(body, call.succeeded, f"step {step.name!r}", keeps=options.ephemeral)
        except BodyError as failure:
            self.record_failure(call.failed(failure.error))
            return failure.error
        return None

    def record_failure(self, failed: FailedAttempt) -> None:
        if self.replays_only:
            raise CancelRequested(rollback=True)
        with errors_of_the_database():
            self._commit(Changes((failed.entry,)), failed.event)

    def run_handler(self, compensation: Compensation, cause: Exception) -> None:
        args, kwargs, output = undo.arguments(compensation)
        key = self._key(compensation.path, compensation.run, "rollback")
        rollback = Rollback(args, kwargs, compensation.attempts, key, cause, compensation.outcome)
        step = CurrentStep(compensation.name, compensation.attempts, key, self.is_evicted)
        what = f"the rollback of step {compensation.name!r}"

        def body() -> Any:
            if self.takeovers >= self.max_takeovers:
                raise StepInterruptedError(f"{what}: {self.takeovers} workers in a row died at this point")
            handler = resolve(compensation.handler, self.actor, get_settings().HANDLER_ALIASES)
            return call_body(handler, (rollback, output), {}, step, compensation.timeout)

        def done(value: Any) -> Changes:
            return Changes(compensations=(undo.undone(compensation, self.now()),))

        try:
            if compensation.atomic:
                self._run_atomic(body, done)
            else:
                self.write()
                self._run_outside(body, done, what)
        except BodyError as failure:
            record, event = undo.failed(
                compensation, failure.error, now=self.now(), chance=self.chance(), workflow_id=self.workflow_id
            )
            with errors_of_the_database():
                self._commit(Changes(compensations=(record,)), event)
        self.takeovers = 0

    # The mailbox -----------------------------------------------------------------------------

    def peek(self, queues: Sequence[str], count: int, excluding: frozenset[int]) -> list[ReceivedMessage]:
        if self.replays_only:
            raise CancelRequested(rollback=True)
        for name in queues:
            self.definition.queue(name)
        with errors_of_the_database():
            return mailbox.peek(self.lease.actor_id, queues, count, excluding)

    def load_body(self, queue: str, body: Any) -> Any:
        return self.definition.queue(queue).body.load(body, f"a message of queue {queue!r}")

    def handler_reference(self, handler: Callable[..., Any]) -> str:
        return reference_of(handler, self.actor)

    # Below: how it is done -------------------------------------------------------------------

    def _run_atomic(self, body: Callable[[], Any], record: Callable[[Any], Changes], *, keeps: bool = False) -> None:
        for rerun in range(MAX_RERUNS + 1):
            try:
                self._try_atomic(body, record, keeps=keeps)
                return
            except BodyError as failure:
                if rerun == MAX_RERUNS or not is_conflict(failure.error):
                    raise
                logger.info("the transaction of actor %s met a conflict and is run again", self.workflow_id)
            except DatabaseError as error:
                if rerun == MAX_RERUNS or not is_conflict(error):
                    raise Broken from error
            time.sleep(random.random() * 0.02 * 2**rerun)  # noqa: S311 - whoever we met should not meet us again

    def _try_atomic(self, body: Callable[[], Any], record: Callable[[Any], Changes], *, keeps: bool) -> None:
        turn = WritingTurn(self.actor)
        with engine_transaction() as begun:
            with errors_of_the_body(), turn_open(turn):
                changes = record(body())
                if is_broken():
                    raise transaction.TransactionManagementError(
                        "the body swallowed an error of the database, which had ended its transaction: "
                        "put what may fail into a transaction.atomic() block of its own"
                    )
                tells = turn.save()
            if keeps and not begun.statements:
                self._note(changes)
                return
            self._write(changes, begun)
        self._committed(changes, tells)

    def _run_outside(
        self, body: Callable[[], Any], record: Callable[[Any], Changes], what: str, *, keeps: bool = False
    ) -> None:
        reading = ReadingTurn(self.actor, where=what, may_broadcast=True)
        with errors_of_the_body():
            with turn_open(reading):
                value = body()
            reading.complain_if_changed()
            changes = record(value)
        if keeps and not reading.events:
            self._note(changes)
            return
        with errors_of_the_database():
            turn = WritingTurn(self.actor)
            for name, payload in reading.events:
                turn.broadcast(name, payload)
            with engine_transaction() as begun:
                tells = turn.save()
                self._write(changes, begun)
            self._committed(changes, tells)

    def _commit(
        self, changes: Changes | None = None, event: ErrorEvent | None = None, *, progress: bool = True
    ) -> None:
        changes = changes or Changes()
        turn = WritingTurn(self.actor)
        with engine_transaction() as begun:
            if event is not None:
                tell_hook(self.actor, event, turn)
            tells = turn.save()
            self._write(changes, begun, progress=progress)
        self._committed(changes, tells, event)

    def _write(self, changes: Changes, begun: Begun, *, progress: bool = True) -> None:
        journal.write_changes(self.lease, self.history.unwritten() + changes)
        self.request = journal.fence(self.lease, self.status, progress=progress)

    def _committed(self, changes: Changes, tells: bool, event: ErrorEvent | None = None) -> None:
        self.history.confirm()
        self.history.absorb(changes)
        if tells:
            publish(self.lease.actor_id)
        if event is not None:
            self.after_commit.append(event)

    def _note(self, changes: Changes) -> None:
        for entry in changes.entries:
            self.history.note(entry)
        for compensation in changes.compensations:
            self.history.note_compensation(compensation)

    def _key(self, path: str, run: int, purpose: str = "step") -> str:
        return str(uuid.uuid5(self.lease.actor_id, f"{purpose}:{run}:{path}"))
