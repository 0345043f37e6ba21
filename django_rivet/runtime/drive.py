"""Drive one actor: claim it, walk its workflow once, and write down what came of it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import Error

from django_rivet import signals
from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import UnknownActorTypeError
from django_rivet.actors.registry import registry
from django_rivet.conf import get_settings
from django_rivet.engine import codec, runner
from django_rivet.engine.compensation import AllUndone, RunHandler, Stopped, next_undo
from django_rivet.engine.context import Context
from django_rivet.engine.decision import Wait
from django_rivet.engine.entries import ErrorInfo, UndoStatus
from django_rivet.engine.events import ErrorEvent, StepFailed, WorkflowFailed
from django_rivet.engine.events import RollbackFailed as RollbackEvent
from django_rivet.engine.exceptions import WorkflowCancelledError, WorkflowFailedError
from django_rivet.engine.failures import describe
from django_rivet.engine.history import History
from django_rivet.engine.location import ROOT
from django_rivet.engine.outcome import Completed, Diverged, Failed, Outcome, Suspended
from django_rivet.engine.suspend import (
    Broken,
    CancelRequested,
    HandedOver,
    LeaseLost,
    RollbackStopped,
    Unwind,
    Waiting,
)
from django_rivet.engine.undo import owed_under
from django_rivet.runtime.handles import handle_of
from django_rivet.runtime.host import DriveHost
from django_rivet.runtime.slots import ring_next
from django_rivet.runtime.worker import Worker
from django_rivet.store import runs
from django_rivet.store.conflicts import is_conflict
from django_rivet.store.journal import Release, load_history
from django_rivet.store.outages import forget_lost_connection
from django_rivet.store.run_errors import RunError, dump_run_error, load_run_error
from django_rivet.store.runs import Claim, Hint
from django_rivet.store.slots import Cap, cap_of

logger = logging.getLogger(__name__)

DIVERGED_PAUSES = (1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds after which a diverged actor is tried again; the last one repeats."""

CLAIM_TRIES = 3

BROKEN_PAUSE = 1.0
"""Seconds until an actor is tried again whose drive the database failed."""


def drive(actor_id: uuid.UUID, worker: Worker, hint: Hint = Hint()) -> bool:  # noqa: B008 - frozen
    """One drive. False where the actor is not due, somebody else holds it, its type is unknown here, or ``hint`` is
    void.

    Errors of the database leave the actor for another try; what dies in between is taken over when the lease is over.
    """
    forget_lost_connection()
    try:
        return _drive(actor_id, worker, hint)
    except Error as error:
        forget_lost_connection()
        logger.warning("the database failed actor %s, which is tried again later: %s", actor_id, error)
        raise DatabaseFailedError(f"the database failed the drive of actor {actor_id}") from error


def _drive(actor_id: uuid.UUID, worker: Worker, hint: Hint) -> bool:
    found = runs.look(actor_id, hint, dead=worker.dead)
    if found is None:
        return False
    type_name, key = found
    try:
        actor_class = registry.get(type_name)
    except UnknownActorTypeError as error:
        logger.warning("actor %s is left to another worker: %s", actor_id, error)
        return False
    cap = cap_of(actor_class.definition)
    claim = _claim(actor_id, worker, cap)
    if claim is None:
        return False
    actor = actor_class(str(actor_id), key)
    with worker.keep_alive(claim.lease):
        try:
            history = load_history(claim.lease.actor_id)
        except ValueError as error:
            # Damaged, or written by newer code than this: nothing may be done on top of what cannot be read.
            Drive(actor, claim, History(), worker).refuse(error)
        except Error as error:
            Drive(actor, claim, History(), worker).give_back(error)
            raise
        else:
            Drive(actor, claim, history, worker).run()
    if cap is not None:
        ring_next(cap)
    return True


def _claim(actor_id: uuid.UUID, worker: Worker, cap: Cap | None) -> Claim | None:
    """In serializable transactions two claims at once are a conflict: whoever meets it looks again."""
    lease = get_settings().LEASE_SECONDS
    for attempt in range(CLAIM_TRIES):
        try:
            return runs.claim(actor_id, worker.name, lease, dead=worker.dead, cap=cap, in_order=worker.waits_in_line)
        except Error as error:
            if attempt == CLAIM_TRIES - 1 or not is_conflict(error):
                raise
    raise AssertionError("unreachable")


class Drive:
    """From the claim to the release."""

    def __init__(self, actor: Actor[Any], claim: Claim, history: History, worker: Worker) -> None:
        self.actor = actor
        self.claim = claim
        self.host = DriveHost(
            actor,
            claim,
            history,
            may_pause=worker.may_pause,
            slice_ends=worker.slice_ends,
            evicted=worker.evicted,
        )
        stored = load_run_error(claim.error)
        self.error = stored if claim.status == "rolling_back" else None
        """Why the workflow rolls back."""
        self.diverged = stored if claim.status == "diverged" else None

    def run(self) -> None:
        try:
            self._run()
        except LeaseLost:
            logger.info("actor %s is driven by another worker now, or was destroyed", self.actor.id)
        except Broken as broken:
            self._try_later(broken.__cause__)
            raise DatabaseFailedError(f"the database failed the drive of actor {self.actor.id}") from broken.__cause__
        finally:
            self._send_signals()

    def refuse(self, error: Exception) -> None:
        """The history cannot be read: the actor is ``diverged``, and tried again."""
        self._diverge(describe(error))

    def give_back(self, error: Error) -> None:
        """The history could not be loaded: nothing happened, and the actor is tried again."""
        self._try_later(error, cut_off=None)

    # Below: how it is done -------------------------------------------------------------------

    def _run(self) -> None:
        host = self.host
        if host.standing.pausing and isinstance(host.interruption(), HandedOver) and host.recorder.stand_still():
            return
        wants_rollback = host.standing.request == "cancel_rollback"
        workflow = self.actor.definition.workflow
        if self.claim.status == "rolling_back" and (self.error is not None or wants_rollback):
            self._roll_back()
        elif host.standing.request == "cancel" and not self._is_undoing_block:
            self._release("cancelled")
        elif wants_rollback and not self.claim.cut_off:
            self._cancel_with_rollback()
        elif workflow is None:
            self._diverge(ErrorInfo("HistoryDivergedError", f"{self.actor!r} does not declare a workflow any more"))
        else:
            self._walk(partial(workflow.function, self.actor), up_to_here=wants_rollback)

    def _walk(self, workflow: Callable[[Context], Any], *, up_to_here: bool) -> None:
        """``up_to_here``: execute nothing. A drive that was cut off may have ended scopes that are not on record as
        ended, and what they have settled must not be undone.
        """
        self.host.standing.is_rolling_back = False
        self.host.replays_only = up_to_here
        outcome = runner.run(workflow, self.host, self.host.history)
        self.host.replays_only = False
        if up_to_here and isinstance(outcome, Suspended) and isinstance(outcome.reason, (Waiting, CancelRequested)):
            self._cancel_with_rollback()
        else:
            self._settle(outcome)

    def _settle(self, outcome: Outcome) -> None:
        match outcome:
            case Completed(output):
                self._release("completed", output=output)
                self._signal(signals.workflow_completed, output=codec.decode(output))
            case Failed():
                self._fail(outcome)
            case Diverged(error):
                self._diverge(error)
            case Suspended(reason):
                self._suspend(reason)

    def _fail(self, failed: Failed) -> None:
        self.error = RunError(failed.error, failed.through)
        event = None
        if not failed.is_reported:
            event = WorkflowFailed(workflow_id=self.actor.id, error=failed.error)
        if failed.compensates and owed_under(self.host.history, ROOT):
            self.host.recorder.enter_rollback(dump_run_error(self.error), event)
            self._roll_back()
        else:
            self._end("cancelled" if self.host.standing.request else "failed", event)

    def _diverge(self, error: ErrorInfo) -> None:
        before = self.diverged
        tries = before.tries + 1 if before is not None else 0
        pause = DIVERGED_PAUSES[min(tries, len(DIVERGED_PAUSES) - 1)]
        is_new = before is None or before.error.message != error.message
        event = WorkflowFailed(workflow_id=self.actor.id, error=error) if is_new else None
        logger.error("%r diverged and is tried again in %d s: %s", self.actor, pause, error.message)
        # What this pass noted belongs to code that does not fit.
        self.host.history.confirm()
        self.host.recorder.release(
            Release(
                "diverged",
                due_at=self.host.now() + timedelta(seconds=pause),
                error=dump_run_error(RunError(error, frozenset(), tries)),
                keeps_request=True,
                progress=False,
                cut_off=None,
            ),
            event,
        )

    def _suspend(self, reason: Unwind) -> None:
        match reason:
            case Waiting(until=until, queues=queues):
                self._release(self._asleep, due_at=self.host.wake_at(until), queues=queues)
            case HandedOver():
                self._hand_over(self._asleep)
            case CancelRequested() if self._is_undoing_block:
                # In another branch of a join, where it has to wait.
                self._hand_over("rolling_back")
            case CancelRequested(rollback=True):
                self._cancel_with_rollback()
            case CancelRequested():
                self._release("cancelled")
            case RollbackStopped():
                given_up = next(c for c in owed_under(self.host.history, ROOT) if c.status is UndoStatus.FAILED)
                assert given_up.error is not None
                self.error = RunError(given_up.error, in_block=True)
                self._end("rollback_failed")
            case _:
                raise reason

    @property
    def _is_undoing_block(self) -> bool:
        """A block failed, and its compensations are not all done: that goes on whatever else is asked."""
        return bool(self.host.history.undoing)

    @property
    def _asleep(self) -> str:
        return "rolling_back" if self.host.is_rolling_back else "sleeping"

    def _cancel_with_rollback(self) -> None:
        if owed_under(self.host.history, ROOT):
            self.host.recorder.enter_rollback(None, None)
        self._roll_back()

    def _roll_back(self) -> None:
        """All that is owed, newest first, from records."""
        host = self.host
        while True:
            if isinstance(host.interruption(), HandedOver):
                return self._hand_over("rolling_back")
            match next_undo(owed_under(host.history, ROOT), host.now()):
                case RunHandler(compensation):
                    try:
                        host.run_handler(compensation, self._cause())
                    except HandedOver:
                        return self._hand_over("rolling_back")
                case Wait(until):
                    assert until is not None
                    if not host.pause_until(until):
                        return self._release("rolling_back", due_at=until)
                case Stopped():
                    return self._end("rollback_failed")
                case AllUndone():
                    return self._end("cancelled" if host.standing.request else "failed")

    def _hand_over(self, status: str) -> None:
        """To whichever worker has time."""
        self._release(status, due_at=self.host.now(), progress=False)

    def _cause(self) -> Exception:
        if self.error is not None and self.host.standing.request != "cancel_rollback":
            return WorkflowFailedError(str(self.error.error), self.error.error)
        return WorkflowCancelledError("the workflow was cancelled")

    def _end(self, status: str, event: ErrorEvent | None = None) -> None:
        self._release(status, event=event)
        if status != "cancelled":
            self._signal(signals.workflow_failed, error=self.error and self.error.error)

    def _release(
        self,
        status: str,
        *,
        due_at: Any = None,
        queues: tuple[str, ...] | None = None,
        output: str | None = None,
        event: ErrorEvent | None = None,
        progress: bool = True,
        cut_off: bool | None = False,
    ) -> None:
        waits = status in ("sleeping", "rolling_back")
        error = None
        if self.error is not None and status in ("rolling_back", "rollback_failed", "failed"):
            error = dump_run_error(self.error)
        self.host.recorder.release(
            Release(
                status,
                due_at=due_at,
                queues=queues,
                output=output,
                error=error,
                # A cancellation that stands still with its rollback is not forgotten.
                keeps_request=waits or status == "rollback_failed",
                due_on_request=status == "sleeping",
                progress=progress,
                cut_off=cut_off,
            ),
            event,
        )

    def _try_later(self, error: BaseException | None, *, cut_off: bool | None = True) -> None:
        """Give the actor back at once where the database can be reached again; else the lease runs out."""
        logger.warning("the database failed the drive of actor %s: %s", self.actor.id, error)
        try:
            self.host.history.confirm()
            self._release(
                self._asleep,
                due_at=self.host.now() + timedelta(seconds=BROKEN_PAUSE),
                progress=False,
                cut_off=cut_off,
            )
        except (Broken, LeaseLost):
            logger.info("actor %s is tried again when its lease is over", self.actor.id)

    def _signal(self, signal: Any, **values: Any) -> None:
        """Behind those of the failures that led to it."""
        self._send_signals()
        self._send(signal, **values)

    def _send(self, signal: Any, **values: Any) -> None:
        signal.send_robust(type(self.actor), actor=handle_of(self.actor), **values)

    def _send_signals(self) -> None:
        told, self.host.standing.told = self.host.standing.told, []
        for event in told:
            if isinstance(event, StepFailed):
                self._send(signals.step_failed, event=event)
            elif isinstance(event, RollbackEvent):
                self._send(signals.rollback_failed, event=event)


class DatabaseFailedError(Exception):
    """The database failed the engine in the middle of a drive; the actor will be tried again."""
