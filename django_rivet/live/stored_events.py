"""Reading what actors have broadcast. Synchronous: call it by ``database_sync_to_async``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django_rivet.models import Actor, Event
from django_rivet.store.database import alias

BATCH = 50
"""Events in memory at once, per client: so many a client that does not read holds up, and no more."""

_IDS_PER_QUERY = 500


@dataclass(frozen=True, slots=True)
class Batch:
    """The next events of an actor."""

    rows: list[tuple[int, str, str]]
    """Number, name and payload, in order."""
    last: int
    """The number up to which ``rows`` tells all that is left. A number below that is in no row: it was pruned."""
    is_full: bool
    """There may be more."""


def read_after(actor_id: uuid.UUID, seq: int) -> Batch | None:
    """What came after ``seq``; None where the actor does not exist any more."""
    # The counter first: whatever it has counted is committed, so what the second look does not find is gone.
    last = last_seqs([actor_id]).get(actor_id)
    if last is None:
        return None
    found = Event.objects.using(alias()).filter(actor_id=actor_id, seq__gt=seq).order_by("seq")
    rows = list(found.values_list("seq", "name", "payload")[:BATCH])
    reached = rows[-1][0] if rows else seq
    is_full = len(rows) == BATCH
    return Batch(rows, reached if is_full else max(reached, last), is_full)


def last_seqs(actor_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """The number of the last event of each; those that do not exist any more are left out."""
    ids = list(actor_ids)
    found: dict[uuid.UUID, int] = {}
    for start in range(0, len(ids), _IDS_PER_QUERY):
        some = Actor.objects.using(alias()).filter(pk__in=ids[start : start + _IDS_PER_QUERY])
        found.update(some.values_list("pk", "event_seq"))
    return found
