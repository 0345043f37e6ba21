"""What users hold: a handle to one actor."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import OperationalError, transaction

from django_rivet.actors.actor import Actor
from django_rivet.actors.definition import ActionDefinition, ActorDefinition
from django_rivet.actors.exceptions import (
    ActorBusyError,
    ActorExistsError,
    ActorNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MessageTooLargeError,
    QueueFullError,
    UnknownActionError,
    WorkflowFinishedError,
)
from django_rivet.actors.key import key_parts
from django_rivet.actors.turn import turn_of, turn_open
from django_rivet.engine import codec
from django_rivet.engine.current import in_workflow_code, running_hook
from django_rivet.engine.durations import Duration
from django_rivet.engine.durations import seconds as in_seconds
from django_rivet.engine.entries import ErrorInfo
from django_rivet.engine.exceptions import InvalidStepError, StepOnlyError
from django_rivet.models import Message as MessageRow
from django_rivet.runtime.bell import ring_on_commit
from django_rivet.runtime.history_view import HistoryView
from django_rivet.runtime.publisher import publish
from django_rivet.runtime.snapshot import Snapshot, take_snapshot
from django_rivet.runtime.turn import ReadingTurn, WritingTurn
from django_rivet.store import actors, lifecycle, mailbox
from django_rivet.store.database import alias
from django_rivet.store.transactions import engine_transaction


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message is stored; it is worked on once the surrounding transaction has committed."""

    id: int
    status: str


class Handle:
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
        _refuse_in_workflow_code(f"the action {action!r}")
        definition = self._definition.action(action)
        arguments = definition.signature.bind(args, kwargs)
        actor = self._class(self.id, self.key)
        run = partial(_run_action, definition, actor, arguments.args, arguments.kwargs)
        if definition.readonly:
            turn = turn_of(self.id)
            if turn is not None:
                return run()
            reading = ReadingTurn(actor, where=f"the read-only action {action!r}", may_broadcast=False)
            with turn_open(reading):
                result = run()
            reading.complain_if_changed()
            return result
        return self._in_turn(actor, run)

    def send(
        self, queue: str, body: Any = None, idempotency_key: str | None = None, delay: Duration | None = None
    ) -> Receipt:
        """Store a message, to be worked on from ``delay`` seconds after the surrounding transaction's commit on.

        With an ``idempotency_key`` a second call with the same body gives the first receipt, and one with another
        body raises ``IdempotencyConflictError``. Raises ``UnknownQueueError``, ``InvalidInputError``,
        ``MessageTooLargeError``, ``QueueFullError`` and, where the workflow is completed or cancelled,
        ``WorkflowFinishedError``; nothing is stored then.
        """
        _refuse_in_workflow_code(f"sending to {queue!r}")
        text = self._checked_body(queue, body)
        _check_idempotency_key(idempotency_key)
        pause = _delay(delay)
        with transaction.atomic(alias()):
            if idempotency_key is not None:
                known = self._known(queue, text, idempotency_key)
                if known is not None:
                    return known
            self._refuse_full_or_finished(queue)
            message_id = mailbox.insert(self._id, queue, text, idempotency_key, pause)
            if message_id is None:
                assert idempotency_key is not None
                known = self._known(queue, text, idempotency_key)
                assert known is not None
                return known
            ring_on_commit(self._id, self.type)
        return Receipt(message_id, "queued")

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

    # Operating -------------------------------------------------------------------------------

    def recover(self) -> bool:
        """After ``failed`` or ``rollback_failed``: fresh attempts; False where the status is another.

        The entries that the uncaught error passed through, and failed handlers, are tried again; compensated steps
        run again when they are reached; a failure that the workflow caught stays as recorded.
        """
        _refuse_in_workflow_code("recover()")
        return self._operate(lambda: lifecycle.recover(self._id))

    def cancel(self, rollback: bool = False) -> bool:
        """End the workflow; with ``rollback=True`` its completed steps are compensated first.

        A running workflow stops when it asks for its next entry or turn; a rollback that is under way goes on and
        ends ``cancelled``. False where it is completed or cancelled already.
        """
        _refuse_in_workflow_code("cancel()")
        return self._operate(lambda: lifecycle.cancel(self._id, rollback=rollback))

    # Async twins -----------------------------------------------------------------------------

    async def acall(self, action: str, /, *args: Any, **kwargs: Any) -> Any:
        return await sync_to_async(self.call)(action, *args, **kwargs)

    async def asend(
        self, queue: str, body: Any = None, idempotency_key: str | None = None, delay: Duration | None = None
    ) -> Receipt:
        return await sync_to_async(self.send)(queue, body, idempotency_key, delay)

    async def asnapshot(self) -> Snapshot:
        return await sync_to_async(self.snapshot)()

    async def ahistory(self, generation: int | None = None) -> HistoryView:
        """The same view, read to its end already."""
        view = self.history(generation)
        await sync_to_async(len)(view)
        await sync_to_async(view.tree)()
        return view

    async def arecover(self) -> bool:
        return await sync_to_async(self.recover)()

    async def acancel(self, rollback: bool = False) -> bool:
        return await sync_to_async(self.cancel)(rollback)

    # Below: how it is done -------------------------------------------------------------------

    @property
    def _definition(self) -> ActorDefinition:
        return self._class.definition

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

    def _in_turn(self, actor: Actor[Any], run: Callable[[], Any]) -> Any:
        open_turn = turn_of(self.id)
        if isinstance(open_turn, WritingTurn):
            with open_turn.undone_on_error(), transaction.atomic(alias()):
                return run()
        turn = WritingTurn(actor)
        try:
            with engine_transaction(observed=False):
                with turn_open(turn):
                    turn.get_state()
                    result = run()
                if turn.save():
                    publish(self._id)
        except OperationalError as error:
            if "database is locked" not in str(error):
                raise
            raise ActorBusyError(f"{self!r} was busy: the database is locked; nothing happened, try again") from error
        return result

    def _checked_body(self, queue: str, body: Any) -> str:
        declared = self._definition.queue(queue).body
        text = declared.text(declared.validate(body, "body"), "body")
        limit = self._definition.meta.max_message_size
        size = len(text.encode())
        if size > limit:
            raise MessageTooLargeError(
                f"a message of {size} bytes to queue {queue!r} of {self.type}; max_message_size allows {limit}"
            )
        return text

    def _refuse_full_or_finished(self, queue: str) -> None:
        found = mailbox.mailbox_of(self._id)
        if found is None:
            raise ActorNotFoundError(f"{self!r} does not exist any more")
        status, count = found
        if status in ("completed", "cancelled"):
            raise WorkflowFinishedError(f"the workflow of {self!r} is {status}; it takes no more messages")
        if count >= self._definition.meta.max_queue_size:
            raise QueueFullError(
                f"{self!r} holds {count} unhandled messages; max_queue_size allows {self._definition.meta.max_queue_size}"
            )

    def _known(self, queue: str, text: str, idempotency_key: str) -> Receipt | None:
        row = MessageRow.objects.using(alias()).filter(actor_id=self._id, idempotency_key=idempotency_key).first()
        if row is None:
            return None
        if row.queue != queue or codec.decode(row.body) != codec.decode(text):
            raise IdempotencyConflictError(
                f"the idempotency key {idempotency_key!r} was used for another message to {self!r}"
            )
        return Receipt(row.pk, "queued")

    def _operate(self, act: Callable[[], lifecycle.Verdict]) -> bool:
        with engine_transaction(observed=False):
            verdict = act()
            if verdict.is_due:
                ring_on_commit(self._id, self.type)
        return verdict.done


class Directory:
    """Answers ``actors.directory.ActorDirectory``."""

    def create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        handle = self.get_or_create(actor_class, key, input)
        if not handle.created:
            raise ActorExistsError(f"{actor_class.definition.type_name} {key!r} exists already")
        return handle

    def get(self, actor_class: type[Actor[Any]], key: str) -> Handle:
        _refuse_in_workflow_code("get()")
        type_name = actor_class.definition.type_name
        actor_id = actors.find(type_name, key)
        if actor_id is None:
            raise ActorNotFoundError(f"there is no {type_name} {key!r}; create() or get_or_create() makes one")
        return Handle(actor_class, key, actor_id)

    def get_or_create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        _refuse_in_workflow_code("get_or_create()")
        type_name = actor_class.definition.type_name
        actor_id = actors.find(type_name, key)
        if actor_id is not None:
            return Handle(actor_class, key, actor_id)
        return self._create(actor_class, key, input)

    async def acreate(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        return await sync_to_async(self.create)(actor_class, key, input)

    async def aget(self, actor_class: type[Actor[Any]], key: str) -> Handle:
        return await sync_to_async(self.get)(actor_class, key)

    async def aget_or_create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        return await sync_to_async(self.get_or_create)(actor_class, key, input)

    # Below: how it is done -------------------------------------------------------------------

    def _create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        definition = actor_class.definition
        given = definition.input_type.validate(input, "input")
        input_text = definition.input_type.text(given, "input")
        state = definition.state_type.initial(actor_class, given, key=key)
        with engine_transaction(observed=False):
            actor_id = actors.insert(
                definition.type_name,
                key,
                input_text,
                definition.state_type.dump(state),
                has_workflow=definition.workflow is not None,
            )
            if actor_id is None:
                return Handle(actor_class, key, _found(actors.find(definition.type_name, key)))
            actor = actor_class(str(actor_id), key)
            turn = WritingTurn(actor)
            with turn_open(turn), running_hook():
                on_create = getattr(actor, "on_create", None)
                if on_create is not None:
                    _finish(on_create(given))
            if turn.save():
                publish(actor_id)
            if definition.workflow is not None:
                ring_on_commit(actor_id, definition.type_name)
        return Handle(actor_class, key, actor_id, created=True)


def handle_of(actor: Actor[Any]) -> Handle:
    return Handle(type(actor), actor.key, uuid.UUID(actor.id))


# Below: how it is done ---------------------------------------------------------------------------


def _run_action(definition: ActionDefinition, actor: Actor[Any], args: Any, kwargs: Any) -> Any:
    with running_hook():
        result = _finish(definition.function(actor, *args, **kwargs))
    result = definition.signature.validate_result(result)
    if result is actor.state:
        # What the caller gets must not be what the turn goes on to change.
        return _state_copy(actor, result)
    return result


def _state_copy(actor: Actor[Any], state: Any) -> Any:
    return type(actor).definition.state_type.copy(state)


def _finish(outcome: Any) -> Any:
    if not inspect.isawaitable(outcome):
        return outcome

    async def awaited() -> Any:
        return await outcome

    return async_to_sync(awaited)()


def _found(actor_id: uuid.UUID | None) -> uuid.UUID:
    if actor_id is None:
        raise ActorNotFoundError("the actor was destroyed at the same moment; try again")
    return actor_id


def _refuse_in_workflow_code(what: str) -> None:
    if in_workflow_code():
        raise StepOnlyError(
            f"{what} belongs in a step: workflow code runs again on every replay, and would do it again each time"
        )


def _check_idempotency_key(key: str | None) -> None:
    if key is not None and (type(key) is not str or not 1 <= len(key) <= 255 or not key.isprintable()):
        message = "must be a printable string of 1 to 255 characters"
        raise InvalidInputError(f"idempotency_key {message}", [{"path": "idempotency_key", "message": message}])


def _delay(delay: Duration | None) -> float:
    if delay is None:
        return 0.0
    try:
        return in_seconds(delay, "delay", minimum=0)
    except InvalidStepError as error:
        raise InvalidInputError(str(error), [{"path": "delay", "message": str(error)}]) from None
