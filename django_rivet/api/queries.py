"""What the API reads from the tables; each function is a constant number of statements."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber

from django_rivet.models import Actor, Compensation, Entry, Message
from django_rivet.runtime.history_view import HistoryEntry, entry_of
from django_rivet.store.database import alias

SHOWN_MESSAGES = 50
"""The oldest of each queue; the number of all is told beside them."""


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that nobody has taken yet. Its body is the workflow's business."""

    id: int
    queue: str
    created_at: datetime


@dataclass(slots=True)
class QueueContent:
    """What lies in one queue of an actor."""

    queue: str
    size: int = 0
    messages: list[WaitingMessage] = field(default_factory=list)


def actors_of(type_name: str) -> QuerySet[Actor]:
    """For lists: states, inputs and outputs stay in the database."""
    actors = Actor.objects.using(alias()).filter(type=type_name).select_related("run")
    return actors.only("id", "type", "key", "created_at", "run__status")


def find_actor(type_name: str, key: str) -> Actor | None:
    """The actor with its run, in one statement: what is told of it fits together."""
    return Actor.objects.using(alias()).select_related("run").filter(type=type_name, key=key).first()


def live_entries(actor_id: uuid.UUID) -> QuerySet[Entry]:
    """The history as it counts now, without what was set aside."""
    return Entry.objects.using(alias()).filter(actor_id=actor_id, retired__isnull=True, seq__gt=0)


def described(entries: Sequence[Entry], actor_id: uuid.UUID) -> list[HistoryEntry]:
    """A page of entries as people read them, each with how far its rollback is."""
    paths = [entry.path for entry in entries]
    found = Compensation.objects.using(alias()).filter(actor_id=actor_id, path__in=paths)
    undo = {(each.path, each.run): each for each in found}
    return [entry_of(entry, undo.get((entry.path, entry.run))) for entry in entries]


def queue_contents(actor_id: uuid.UUID, declared: Iterable[str]) -> list[QueueContent]:
    """Each declared queue, and those that hold messages still though the class has dropped them."""
    waiting = Message.objects.using(alias()).filter(actor_id=actor_id, status=Message.Status.QUEUED)
    numbered = waiting.annotate(
        place=Window(RowNumber(), partition_by=F("queue"), order_by=F("id").asc()),
        size=Window(Count("*"), partition_by=F("queue")),
    )
    oldest = numbered.filter(place__lte=SHOWN_MESSAGES).order_by("id")
    contents = {name: QueueContent(name) for name in declared}
    for message_id, queue, created_at, size in oldest.values_list("id", "queue", "created_at", "size"):
        content = contents.setdefault(queue, QueueContent(queue))
        content.size = size
        content.messages.append(WaitingMessage(message_id, queue, created_at))
    return list(contents.values())
