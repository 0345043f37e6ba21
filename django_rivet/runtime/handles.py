"""What users hold: a handle to one actor."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async

from django_rivet.actors.actor import Actor
from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import UnknownActionError
from django_rivet.actors.key import key_parts
from django_rivet.engine.current import refuse_in_workflow_code
from django_rivet.engine.durations import Duration
from django_rivet.engine.entries import ErrorInfo
from django_rivet.runtime.actions import run_action
from django_rivet.runtime.destroying import destroy_actor
from django_rivet.runtime.history_view import HistoryView
from django_rivet.runtime.operated import Operated
from django_rivet.runtime.sending import Receipt, checked_seconds, send_message
from django_rivet.runtime.snapshot import Snapshot, take_snapshot
from django_rivet.runtime.waiting import (
    Answer,
    answer_to,
    end_of,
    refuse_waiting,
    value_of,
    wait,
    wait_async,
    wait_for_answer,
)


class Handle(Operated):
    """One actor. Its actions are called like methods; what is not a name below is looked up among them.

    A handle holds no state: each property asks the database. Every method that does has an ``a``-prefixed twin.
    """

    def __init__(self, actor_class: type[Actor[Any]], key: str, actor_id: uuid.UUID, *, created: bool = False) -> None:
        self._class = actor_class
        self._id = actor_id
        self.key = key
        self.created = created
        """Whether this call made the actor."""

    @property
    def id(self) -> str:
        """The instance id; a new one after the actor was destroyed and made again."""
        return str(self._id)

    @property
    def type(self) -> str:
        return self._definition.type_name

    @property
    def key_parts(self) -> tuple[str, ...]:
        return key_parts(self.key)

    # Actions and messages --------------------------------------------------------------------

    def call(self, action: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run an action here and now, in one transaction that holds the actor's turn, and return its result.

        An action that raises leaves no trace. Inside a transaction of yours it commits with that. Raises
        ``UnknownActionError``, ``InvalidInputError``, and ``ActorBusyError`` where the turn was not free in time.
        """
        return run_action(self._class(self.id, self.key), action, args, kwargs)

    def send(
        self, queue: str, body: Any = None, idempotency_key: str | None = None, delay: Duration | None = None
    ) -> Receipt:
        """Store a message, to be worked on from ``delay`` seconds after the surrounding transaction's commit on.

        With an ``idempotency_key`` a second call with the same body gives the first receipt, and one with another
        body raises ``IdempotencyConflictError``. Raises ``UnknownQueueError``, ``InvalidInputError``,
        ``MessageTooLargeError``, ``QueueFullError`` and, where the workflow is completed or cancelled,
        ``WorkflowFinishedError``; nothing is stored then.
        """
        return send_message(self._definition, self._id, queue, body, idempotency_key, delay)

    def send_and_wait(
        self, queue: str, body: Any, timeout: Duration | None, idempotency_key: str | None = None
    ) -> Answer:
        """Send a message, and wait until the workflow completes it: at most ``timeout`` seconds (None: no limit).

        The answer's ``status`` is ``completed`` (also where the workflow took the message without completing it),
        ``failed`` where the workflow ended before, or was destroyed, or ``timed_out``: then the message stays as it
        is, and the same ``idempotency_key`` and body wait for it again. Raises what ``send`` raises, and
        ``TransactionOpenError`` inside an atomic block (a test case's own is exempt), an action or any body.
        """
        limit, message_id = self._send_to_wait(queue, body, timeout, idempotency_key)
        return wait_for_answer(self._definition, queue, message_id, limit)

    # Its end ---------------------------------------------------------------------------------

    def result(self, timeout: Duration | None = None) -> Any:
        """The workflow's return value, for which it waits, at most ``timeout`` seconds.

        Raises ``WorkflowFailedError`` (with ``.error``) where the workflow or its rollback has failed,
        ``WorkflowCancelledError``, ``TimeoutError``, ``ActorNotFoundError`` where it was destroyed, ``TypeError`` for
        an actor without a workflow, and ``TransactionOpenError`` as ``send_and_wait`` does.
        """
        limit = self._checked_wait(timeout)
        return value_of(wait(partial(end_of, self._id, repr(self)), limit), repr(self), limit)

    def destroy(self, force: bool = False) -> None:
        """Delete the actor with its state, history and messages, after its ``on_destroy`` hook, in one transaction.

        Raises ``CompensationOwedError`` where a rollback would have something to undo, unless ``force`` says that it
        may stay as it is; ``ActorBusyError`` where the turn was not free in time; and what the hook raises. A worker
        that drives the actor can write nothing of it any more. Afterwards handles raise ``ActorNotFoundError``, and
        the key starts fresh, under another id.
        """
        refuse_in_workflow_code("destroy()")
        destroy_actor(self._class, self._id, self.key, force=force)

    # What is committed now -------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Status, state, error, output and what it waits for, in one statement."""
        return take_snapshot(self._class, self._id)

    @property
    def status(self) -> str:
        return self.snapshot().status

    @property
    def state(self) -> Any:
        return self.snapshot().state

    @property
    def error(self) -> ErrorInfo | None:
        return self.snapshot().error

    @property
    def output(self) -> Any:
        """The workflow's return value once it is completed."""
        return self.snapshot().output

    @property
    def waiting_for(self) -> list[str] | None:
        return self.snapshot().waiting_for

    @property
    def wake_at(self) -> datetime | None:
        return self.snapshot().wake_at

    def history(self, generation: int | None = None) -> HistoryView:
        """The entries in the order they happened; ``generation``: an earlier one, as it was set aside."""
        return HistoryView(self._id, generation)

    # Async twins -----------------------------------------------------------------------------

    async def acall(self, action: str, /, *args: Any, **kwargs: Any) -> Any:
        return await sync_to_async(self.call)(action, *args, **kwargs)

    async def asend(
        self, queue: str, body: Any = None, idempotency_key: str | None = None, delay: Duration | None = None
    ) -> Receipt:
        return await sync_to_async(self.send)(queue, body, idempotency_key, delay)

    async def asend_and_wait(
        self,
        queue: str,
        body: Any,
        timeout: Duration | None,  # noqa: ASYNC109 - no cancellation: it is told what became of the message
        idempotency_key: str | None = None,
    ) -> Answer:
        limit, message_id = await sync_to_async(self._send_to_wait)(queue, body, timeout, idempotency_key)
        look = partial(answer_to, self._definition, queue, message_id)
        return await wait_async(look, limit) or Answer("timed_out")

    async def aresult(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109 - as its twin's
        limit = await sync_to_async(self._checked_wait)(timeout)
        return value_of(await wait_async(partial(end_of, self._id, repr(self)), limit), repr(self), limit)

    async def adestroy(self, force: bool = False) -> None:
        await sync_to_async(self.destroy)(force)

    async def asnapshot(self) -> Snapshot:
        return await sync_to_async(self.snapshot)()

    async def ahistory(self, generation: int | None = None) -> HistoryView:
        """The same view, read to its end already."""
        view = self.history(generation)
        await sync_to_async(len)(view)
        await sync_to_async(view.tree)()
        return view

    # Below: how it is done -------------------------------------------------------------------

    @property
    def _definition(self) -> ActorDefinition:
        return self._class.definition

    def _send_to_wait(
        self, queue: str, body: Any, timeout: Duration | None, idempotency_key: str | None
    ) -> tuple[float | None, int]:
        refuse_waiting("send_and_wait()")
        limit = checked_seconds(timeout, "timeout")
        return limit, send_message(self._definition, self._id, queue, body, idempotency_key, None).id

    def _checked_wait(self, timeout: Duration | None) -> float | None:
        refuse_waiting("result()")
        if self._definition.workflow is None:
            raise TypeError(f"{self.type} declares no workflow, so there is no result to wait for")
        return checked_seconds(timeout, "timeout")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            self._definition.action(name)
        except UnknownActionError as error:
            raise AttributeError(str(error), name=name, obj=self) from None
        return partial(self.call, name)

    def __repr__(self) -> str:
        return f"<{self.type} {self.key!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)


def handle_of(actor: Actor[Any]) -> Handle:
    return Handle(type(actor), actor.key, uuid.UUID(actor.id))
