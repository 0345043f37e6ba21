"""What an operator does with an actor, on its handle."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from functools import partial

from asgiref.sync import sync_to_async

from django_rivet.engine.current import refuse_in_workflow_code
from django_rivet.runtime.history_view import HistoryEntry
from django_rivet.runtime.operating import carry_out, checked_note, checked_person
from django_rivet.store import lifecycle, pausing, replays, rollbacks


class Operated(ABC):
    """The part of a handle that operators use. All of it obeys the caller's transaction.

    ``ActorNotFoundError`` where the actor was destroyed.
    """

    _id: uuid.UUID

    @property
    @abstractmethod
    def type(self) -> str:
        """The actor's type name."""

    def recover(self) -> bool:
        """After ``failed`` or ``rollback_failed``: fresh attempts; False where the status is another.

        The entries that the uncaught error passed through, and failed handlers, are tried again; compensated steps
        run again when they are reached; a failure that the workflow caught stays as recorded.
        """
        refuse_in_workflow_code("recover()")
        return carry_out(lifecycle.recover, self._id, self.type)

    def cancel(self, rollback: bool = False) -> bool:
        """End the workflow; with ``rollback=True`` its completed steps are compensated first.

        A running workflow stops when it asks for its next entry or turn; a rollback that is under way goes on and
        ends ``cancelled``. False where it is completed or cancelled already.
        """
        refuse_in_workflow_code("cancel()")
        return carry_out(partial(lifecycle.cancel, rollback=rollback), self._id, self.type)

    def pause(self) -> bool:
        """Stand still until ``resume()``. A second call changes nothing.

        A running workflow stops when it asks for its next entry or turn; a rollback, between two handlers. Messages
        are stored, and timers kept, but nothing of it happens while it is paused. ``cancel()`` ends it all the same.
        False where it stands still anyway: completed, cancelled, failed, or its rollback failed.
        """
        refuse_in_workflow_code("pause()")
        return carry_out(pausing.pause, self._id, self.type)

    def resume(self) -> bool:
        """Go on as before ``pause()``; what became due meanwhile is done now. False where it is not paused."""
        refuse_in_workflow_code("resume()")
        return carry_out(pausing.resume, self._id, self.type)

    def wake(self) -> bool:
        """Have a worker look at it now. A wait that is not over goes on, with the due time that it had; a ``diverged``
        actor is tried again. False where it is paused, stands still, or has no workflow.
        """
        refuse_in_workflow_code("wake()")
        return carry_out(pausing.wake, self._id, self.type)

    def replay_from(self, entry: str | HistoryEntry | None = None) -> None:
        """Run again from this step on (its path, or its entry of the history); None: from the beginning.

        The step and all that was recorded after it, by the order of the records, is set aside: readable as an earlier
        generation, no more. Nothing of it is undone now, nor by a later rollback; ``state`` stays as it is. Messages
        received there are queued again in their old places, unless they were completed. Steps run again under the
        idempotency keys that they had, those with ``at_most_once`` included. What a rollback has undone in front of
        the step runs again as well. A second call sets aside what ran since.

        A paused actor stays paused. ``UnknownEntryError`` where the history has no such step;
        ``WorkflowInFlightError`` while a worker drives the actor; ``NotReplayableError`` where the workflow is
        cancelled, or about to be, or its rollback is not over: nothing has happened then.
        """
        refuse_in_workflow_code("replay_from()")
        path = entry.path if isinstance(entry, HistoryEntry) else entry
        if path is not None and not isinstance(path, str):
            raise TypeError(f"replay_from() takes the path of a step, or an entry of the history, not {entry!r}")
        carry_out(partial(replays.replay, path=path), self._id, self.type)

    # Rollback handlers that are out of attempts ----------------------------------------------

    def retry_rollback(self, path: str) -> bool:
        """Fresh attempts for the handler of the step at ``path``, with which the rollback goes on.

        False where it is going to be run anyway. Like the next two it raises ``RollbackNotFailedError`` where that
        handler has not failed, and ``WorkflowInFlightError`` while a worker drives the actor; this one raises
        ``WorkflowFinishedError`` where the rollback is over.
        """
        refuse_in_workflow_code("retry_rollback()")
        return carry_out(partial(rollbacks.retry, path=path), self._id, self.type)

    def skip_rollback(self, path: str, reason: str, by: str = "") -> bool:
        """Leave what the step at ``path`` did as it is, and go on with the older handlers.

        The history shows ``skipped``, the reason and who that was (``by``). A second call changes nothing, and says
        False. ``InvalidInputError`` where the reason is empty.
        """
        refuse_in_workflow_code("skip_rollback()")
        return carry_out(
            partial(rollbacks.skip, path=path, reason=checked_note(reason, "reason"), by=checked_person(by)),
            self._id,
            self.type,
        )

    def confirm_rollback(self, path: str, note: str, by: str = "") -> bool:
        """Somebody has undone by hand what the step at ``path`` did: go on with the older handlers.

        The history shows ``confirmed``, the note and who that was. A second call changes nothing, and says False.
        """
        refuse_in_workflow_code("confirm_rollback()")
        return carry_out(
            partial(rollbacks.confirm, path=path, note=checked_note(note, "note"), by=checked_person(by)),
            self._id,
            self.type,
        )

    # Async twins -----------------------------------------------------------------------------

    async def arecover(self) -> bool:
        return await sync_to_async(self.recover)()

    async def acancel(self, rollback: bool = False) -> bool:
        return await sync_to_async(self.cancel)(rollback)

    async def apause(self) -> bool:
        return await sync_to_async(self.pause)()

    async def aresume(self) -> bool:
        return await sync_to_async(self.resume)()

    async def awake(self) -> bool:
        return await sync_to_async(self.wake)()

    async def areplay_from(self, entry: str | HistoryEntry | None = None) -> None:
        await sync_to_async(self.replay_from)(entry)

    async def aretry_rollback(self, path: str) -> bool:
        return await sync_to_async(self.retry_rollback)(path)

    async def askip_rollback(self, path: str, reason: str, by: str = "") -> bool:
        return await sync_to_async(self.skip_rollback)(path, reason, by)

    async def aconfirm_rollback(self, path: str, note: str, by: str = "") -> bool:
        return await sync_to_async(self.confirm_rollback)(path, note, by)
