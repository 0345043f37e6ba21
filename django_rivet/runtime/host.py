"""What the engine asks for, answered with transactions: one drive of one actor by one worker."""

from __future__ import annotations

import logging
import math
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django_rivet.actors.actor import Actor
from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.references import reference_of, resolve
from django_rivet.conf import get_settings
from django_rivet.engine import compensation as undo
from django_rivet.engine.current import CurrentStep
from django_rivet.engine.decision import FailedAttempt
from django_rivet.engine.durations import seconds
from django_rivet.engine.entries import Compensation, ReceivedMessage
from django_rivet.engine.exceptions import RollbackHandlerError, StepInterruptedError, StepTimeoutError
from django_rivet.engine.history import History
from django_rivet.engine.notes import Changes
from django_rivet.engine.ports import StepCall
from django_rivet.engine.rollback import Rollback
from django_rivet.engine.suspend import CancelRequested, HandedOver, RunTimedOut, Unwind
from django_rivet.runtime import branches
from django_rivet.runtime.beside import Lifeline, current_attempt
from django_rivet.runtime.bodies import (
    Body,
    BodyError,
    errors_of_the_database,
)
from django_rivet.runtime.performer import Performer, with_reruns
from django_rivet.runtime.recorder import Recorder, Standing
from django_rivet.runtime.run_limits import RunLimit, cut_off
from django_rivet.runtime.turn import refuse_large
from django_rivet.store import mailbox
from django_rivet.store.runs import Claim

logger = logging.getLogger(__name__)

INLINE_WAIT_SECONDS = 0.1
"""A shorter wait costs less in memory than in the database."""


class DriveHost:
    """Answers ``engine.ports.Host``."""

    def __init__(
        self,
        actor: Actor[Any],
        claim: Claim,
        history: History,
        *,
        may_pause: bool = True,
        slice_ends: float = math.inf,
        evicted: Callable[[], bool] = lambda: False,
    ) -> None:
        settings = get_settings()
        self.actor = actor
        self.definition: ActorDefinition = type(actor).definition
        self.workflow_id = actor.id
        self.history = history
        is_rolling_back = claim.status == "rolling_back" and not history.undoing
        self.standing = Standing(is_rolling_back, claim.request, claim.pausing, claim.takeovers)
        self.recorder = Recorder(actor, claim.lease, history, self.standing)
        self._performer = Performer(actor, self.recorder)
        self._lifeline: Lifeline | None = None
        self.max_takeovers = settings.MAX_TAKEOVERS
        self.max_output_bytes = settings.MAX_OUTPUT_BYTES
        self.step_defaults: Mapping[str, Any] = settings.STEP_DEFAULTS
        self.replays_only = False
        """Walk up to where the workflow stands, and execute nothing."""
        self.run_limit = RunLimit(self.definition.meta.run_timeout, claim.started_at)
        self._actor_id = claim.lease.actor_id
        self._clock = claim.now, claim.read_at
        self._slice_ends = min(time.monotonic() + settings.SLICE_SECONDS, slice_ends)
        self._may_pause = may_pause
        self._body_noticed_eviction = False
        self._evicted = evicted

    # Time and interruptions ------------------------------------------------------------------

    def now(self) -> datetime:
        at_claim, then = self._clock
        return at_claim + timedelta(seconds=time.monotonic() - then)

    def chance(self) -> float:
        return random.random()  # noqa: S311 - jitter

    def interruption(self) -> Unwind | None:
        if self.replays_only:
            return None
        # A block that failed is undone to its end first. Other branches of a join begin nothing meanwhile.
        if self.standing.request and not (self.standing.is_rolling_back or self.history.is_undoing_here):
            return CancelRequested(rollback=self.standing.request == "cancel_rollback")
        if self.standing.pausing:
            return HandedOver()
        # What is on record is replayed to its end: only then it is known where it stands, and that the code fits.
        if self._run_is_over and self.history.reached and not self.history.is_replaying:
            return self._timed_out()
        # A slice that is over before anything was recorded would only be repeated.
        if self.is_evicted() or (self.standing.has_progressed and time.monotonic() >= self._slice_ends):
            return HandedOver()
        return None

    @property
    def takeovers(self) -> int:
        return self.recorder.takeovers

    def is_evicted(self) -> bool:
        return self._evicted()

    def is_evicted_in_body(self) -> bool:
        """A body that heard yes and then raises has given way: that is no failed attempt."""
        if (attempt := current_attempt()) is not None and attempt.is_void:
            return True
        self._body_noticed_eviction = self.is_evicted()
        return self._body_noticed_eviction

    def wake_at(self, due: datetime | None) -> datetime | None:
        """When the actor has to be looked at again that waits until ``due``: not later than its run may last."""
        return due if self.is_rolling_back else self.run_limit.wake_at(due)

    def pause_until(self, due: datetime) -> bool:
        if self._run_is_over and not self.replays_only:
            raise self._timed_out()
        left = (due - self.now()).total_seconds()
        if self.replays_only or not self._may_pause or left > INLINE_WAIT_SECONDS or self.is_evicted():
            return False
        with self.history.baton.laid_down():
            time.sleep(max(0.0, left))
        return not self.is_evicted()

    @property
    def is_rolling_back(self) -> bool:
        """The workflow, or a block that failed."""
        return self.standing.is_rolling_back or bool(self.history.undoing)

    def refuse_anything_new(self) -> None:
        if self.replays_only:
            raise CancelRequested(rollback=True)
        if self._run_is_over:
            raise self._timed_out()

    # Branches --------------------------------------------------------------------------------

    def of_branch(self, history: History) -> DriveHost:
        branch = copy(self)
        branch.history = history
        branch.recorder = self.recorder.of_branch(history)
        branch._lifeline = Lifeline()
        branch._performer = Performer(self.actor, branch.recorder, branch._lifeline)
        branch._body_noticed_eviction = False
        return branch

    def leave_body(self) -> None:
        if self._lifeline is not None:
            self._lifeline.cut()

    def run_beside(self, work: Callable[[], None], when_over: Callable[[], None]) -> bool:
        # Where nothing is executed there is nothing to gain.
        return not self.replays_only and branches.threads.start(work, when_over)

    # Steps -----------------------------------------------------------------------------------

    def write(self) -> None:
        if not self.replays_only:
            with self.history.baton.laid_down():
                self.recorder.write_notes()

    def run_step(self, call: StepCall) -> BaseException | None:
        self.refuse_anything_new()
        with self.history.baton.laid_down():
            return self._run_step(call)

    def record_failure(self, failed: FailedAttempt) -> None:
        self.refuse_anything_new()
        with self.history.baton.laid_down():
            self._record_failure(failed)

    def run_handler(self, compensation: Compensation, cause: Exception) -> None:
        with self.history.baton.laid_down():
            self._run_handler(compensation, cause)

    # The mailbox -----------------------------------------------------------------------------

    def peek(self, queues: Sequence[str], count: int, excluding: frozenset[int]) -> list[ReceivedMessage]:
        self.refuse_anything_new()
        for name in queues:
            self.definition.queue(name)
        with errors_of_the_database():
            return mailbox.peek(self._actor_id, queues, count, excluding)

    def load_body(self, queue: str, body: Any) -> Any:
        return self.definition.queue(queue).body.load(body, f"a message of queue {queue!r}")

    def response_text(self, queue: str, response: Any) -> str:
        declared = self.definition.queue(queue).response
        text = declared.text(declared.validate(response, "response"), "response")
        refuse_large(text, f"the response to a message of queue {queue!r} of {self.definition.type_name}")
        return text

    def handler_reference(self, handler: Callable[..., Any]) -> str:
        return reference_of(handler, self.actor)

    # Below: how it is done -------------------------------------------------------------------

    def _run_step(self, call: StepCall) -> BaseException | None:
        options, entry = call.options, call.entry
        if options.starts_on_record:
            # It is no progress: a body that kills its worker would start for ever.
            self.recorder.commit(call.start(), progress=False)
        step = CurrentStep(entry.name, entry.attempts, self._key(entry.path, entry.run), self.is_evicted_in_body)
        limit, is_of_run = self.run_limit.of_body(seconds(options.timeout, "timeout"), self.now())
        body = Body(call.function, call.args, call.kwargs, step, limit, call.completions)
        try:
            self._performer.perform(body, call.succeeded, atomic=options.atomic, keeps=options.ephemeral)
        except BodyError as failure:
            if self._body_noticed_eviction:
                raise HandedOver from failure.error
            if is_of_run and self._run_is_over and isinstance(failure.error, StepTimeoutError):
                record = with_reruns(cut_off(call, limit), failure.reruns)
                with self.history.baton.taken():
                    self.history.note(record)
                raise self._timed_out(under_way=frozenset({entry.path})) from failure.error
            failed = call.failed(failure.error)
            self._record_failure(replace(failed, entry=with_reruns(failed.entry, failure.reruns)))
            return failure.error
        return None

    def _run_handler(self, compensation: Compensation, cause: Exception) -> None:
        try:
            body = self._handler(compensation, cause)
            self._performer.perform(
                body,
                lambda value: Changes(compensations=(undo.undone(compensation, self.now()),)),
                atomic=compensation.atomic,
                is_handler=True,
            )
        except (BodyError, RollbackHandlerError, StepInterruptedError) as failure:
            if self._body_noticed_eviction:
                raise HandedOver from failure
            error = failure.error if isinstance(failure, BodyError) else failure
            record, event = undo.failed(
                compensation, error, now=self.now(), chance=self.chance(), workflow_id=self.workflow_id
            )
            self.recorder.commit(Changes(compensations=(record,)), event)

    @property
    def _run_is_over(self) -> bool:
        """What a block has begun to undo is undone first, however long that takes."""
        return not self.is_rolling_back and self.run_limit.is_over(self.now())

    def _timed_out(self, under_way: frozenset[str] = frozenset()) -> RunTimedOut:
        assert self.run_limit.seconds is not None
        return RunTimedOut(self.run_limit.seconds, under_way)

    def _record_failure(self, failed: FailedAttempt) -> None:
        self.recorder.commit(Changes((failed.entry,)), failed.event)

    def _handler(self, compensation: Compensation, cause: Exception) -> Body:
        if self.takeovers >= self.max_takeovers:
            raise StepInterruptedError(
                f"the rollback of step {compensation.name!r} was interrupted: {self.takeovers} workers in a row died "
                "at this point"
            )
        function = resolve(compensation.handler, self.actor, get_settings().HANDLER_ALIASES)
        try:
            args, kwargs, output = undo.arguments(compensation)
        except ValueError as error:
            raise RollbackHandlerError(
                f"what is on record for the rollback of step {compensation.name!r} cannot be read: {error}"
            ) from error
        key = self._key(compensation.path, compensation.run, "rollback")
        rollback = Rollback(args, kwargs, compensation.attempts, key, cause, compensation.outcome)
        step = CurrentStep(compensation.name, compensation.attempts, key, self.is_evicted_in_body)
        return Body(function, (rollback, output), {}, step, compensation.timeout)

    def _key(self, path: str, run: int, purpose: str = "step") -> str:
        return str(uuid.uuid5(self._actor_id, f"{purpose}:{run}:{path}"))
