"""Messages: sending only inserts, and the oldest due ones are looked at without taking them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from django_rivet.engine.entries import ReceivedMessage
from django_rivet.models import Message
from django_rivet.store import statements as sql
from django_rivet.store.database import alias, aware, execute, fill, marks, moment_sql, row, rows
from django_rivet.store.journal import batches


def peek(actor_id: uuid.UUID, queues: Sequence[str], count: int, excluding: frozenset[int]) -> list[ReceivedMessage]:
    """The oldest due messages in order of sending; ``excluding`` are received but not yet written as such."""
    statement = fill(
        sql.PEEK,
        queues=f" AND queue IN ({marks(len(queues))})" if queues else "",
        excluding=f" AND id NOT IN ({marks(len(excluding))})" if excluding else "",
    )
    found = rows(statement, [actor_id, *queues, *excluding, count])
    return [
        ReceivedMessage(message_id, queue, body, moment)
        for message_id, queue, body, created_at in found
        if (moment := aware(created_at)) is not None
    ]


def mailbox_of(actor_id: uuid.UUID) -> tuple[str, int] | None:
    """The workflow's status and the number of unhandled messages; None where the actor is gone."""
    found = row(sql.MAILBOX, [actor_id])
    return (str(found[0]), int(found[1])) if found is not None else None


def insert(actor_id: uuid.UUID, queue: str, body: str, idempotency_key: str | None, delay: float) -> int | None:
    """Store a message; None where the idempotency key is taken."""
    found = row(fill(sql.SEND, due=moment_sql(delay)), [actor_id, queue, body, idempotency_key])
    return int(found[0]) if found is not None else None


def put_back(actor_id: uuid.UUID, messages: Iterable[ReceivedMessage]) -> None:
    """These were received by waits that are set aside: each is queued again in its old place, unless completed.

    One that was deleted since comes back from the record of its wait, without its idempotency key.
    """
    for batch in batches(messages):
        ids = [message.id for message in batch]
        execute(sql.PUT_BACK.format(ids=marks(len(ids))), [actor_id, *ids])
        stored = set(Message.objects.using(alias()).filter(pk__in=ids).values_list("pk", flat=True))
        Message.objects.using(alias()).bulk_create(
            Message(
                id=message.id,
                actor_id=actor_id,
                queue=message.queue,
                body=message.body,
                created_at=message.created_at,
                visible_at=message.created_at,
            )
            for message in batch
            if message.id not in stored
        )
