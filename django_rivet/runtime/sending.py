"""Store a message in the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import (
    ActorNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MessageTooLargeError,
    QueueFullError,
    WorkflowFinishedError,
)
from django_rivet.engine import codec
from django_rivet.engine.current import refuse_in_workflow_code
from django_rivet.engine.durations import Duration, seconds
from django_rivet.engine.exceptions import InvalidStepError
from django_rivet.engine.retry import LONGEST_SECONDS
from django_rivet.models import Message as MessageRow
from django_rivet.runtime.bell import ring_on_commit
from django_rivet.store import mailbox
from django_rivet.store.database import alias
from django_rivet.store.runs import Hint


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message is stored; it is worked on once the surrounding transaction has committed."""

    id: int
    status: str


def send_message(
    definition: ActorDefinition,
    actor_id: uuid.UUID,
    queue: str,
    body: Any,
    idempotency_key: str | None,
    delay: Duration | None,
) -> Receipt:
    """What ``handle.send`` does."""
    refuse_in_workflow_code(f"sending to {queue!r}")
    text = _checked_body(definition, queue, body)
    _check_idempotency_key(idempotency_key)
    pause = checked_seconds(delay, "delay") or 0.0
    with _refused_where_the_actor_is_gone(definition, actor_id), transaction.atomic(alias()):
        known = _known(actor_id, queue, text, idempotency_key)
        if known is not None:
            return known
        _refuse_full_or_finished(definition, actor_id)
        message_id = mailbox.insert(actor_id, queue, text, idempotency_key, pause)
        if message_id is None:
            # Somebody sent it under the same key at the same moment.
            known = _known(actor_id, queue, text, idempotency_key)
            assert known is not None
            return known
        ring_on_commit(actor_id, definition.type_name, Hint(message=message_id))
    return Receipt(message_id, "queued")


def checked_seconds(value: Duration | None, name: str) -> float | None:
    """A duration that a caller gave; ``InvalidInputError`` where it is none."""
    if value is None:
        return None
    try:
        return seconds(value, name, minimum=0, maximum=LONGEST_SECONDS)
    except InvalidStepError as error:
        raise InvalidInputError(str(error), [{"path": name, "message": str(error)}]) from None


# Below: how it is done ---------------------------------------------------------------------------


@contextmanager
def _refused_where_the_actor_is_gone(definition: ActorDefinition, actor_id: uuid.UUID) -> Iterator[None]:
    """Sending waits for nobody: that the actor was destroyed at that moment shows at the commit."""
    try:
        yield
    except IntegrityError:
        if mailbox.mailbox_of(actor_id) is not None:
            raise
        raise _not_found(definition, actor_id) from None


def _not_found(definition: ActorDefinition, actor_id: uuid.UUID) -> ActorNotFoundError:
    return ActorNotFoundError(f"{definition.type_name} {actor_id} does not exist any more")


def _checked_body(definition: ActorDefinition, queue: str, body: Any) -> str:
    declared = definition.queue(queue).body
    text = declared.text(declared.validate(body, "body"), "body")
    limit = definition.meta.max_message_size
    size = len(text.encode())
    if size > limit:
        raise MessageTooLargeError(
            f"a message of {size} bytes to queue {queue!r} of {definition.type_name}; max_message_size allows {limit}"
        )
    return text


def _refuse_full_or_finished(definition: ActorDefinition, actor_id: uuid.UUID) -> None:
    found = mailbox.mailbox_of(actor_id)
    who = f"{definition.type_name} {actor_id}"
    if found is None:
        raise _not_found(definition, actor_id)
    status, count = found
    if status in ("completed", "cancelled"):
        raise WorkflowFinishedError(f"the workflow of {who} is {status}; it takes no more messages")
    limit = definition.meta.max_queue_size
    if count >= limit:
        raise QueueFullError(f"{who} holds {count} unhandled messages; max_queue_size allows {limit}")


def _known(actor_id: uuid.UUID, queue: str, text: str, idempotency_key: str | None) -> Receipt | None:
    """The receipt of the message that was sent under this key before."""
    if idempotency_key is None:
        return None
    row = MessageRow.objects.using(alias()).filter(actor_id=actor_id, idempotency_key=idempotency_key).first()
    if row is None:
        return None
    if row.queue != queue or codec.decode(row.body) != codec.decode(text):
        raise IdempotencyConflictError(
            f"the idempotency key {idempotency_key!r} was used for another message to this actor"
        )
    return Receipt(row.pk, "queued")


def _check_idempotency_key(key: str | None) -> None:
    if key is not None and (type(key) is not str or not 1 <= len(key) <= 255 or not key.isprintable()):
        message = "must be a printable string of 1 to 255 characters"
        raise InvalidInputError(f"idempotency_key {message}", [{"path": "idempotency_key", "message": message}])
