"""One commit of a drive: everything it changes, and last the fence."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from django_rivet.engine.entries import Compensation, Entry, EntryStatus, ReceivedMessage
from django_rivet.engine.history import History
from django_rivet.engine.notes import Changes
from django_rivet.engine.suspend import LeaseLost
from django_rivet.engine.verbs import receive
from django_rivet.models import Entry as EntryRow
from django_rivet.store import statements as sql
from django_rivet.store.database import alias, execute, fill, marks, moment_sql, row, rows
from django_rivet.store.records import (
    ENTRY_COLUMNS,
    compensation_from,
    compensation_values,
    entry_from,
    entry_values,
)

CAN_PAUSE = ("sleeping", "rolling_back", "diverged")
"""How a drive leaves an actor that would go on."""

ROWS_PER_STATEMENT = 500  # SQLite takes 32,766 parameters


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write: void as soon as another worker has claimed the actor."""

    actor_id: uuid.UUID
    epoch: int
    seconds: float
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """How a drive leaves the actor behind."""

    status: str
    due_at: datetime | None = None
    queues: tuple[str, ...] | None = None
    output: str | None = None
    error: str | None = None
    keeps_request: bool = False
    """Whether a cancellation that nobody has heeded yet stays."""
    due_on_request: bool = False
    """Whether such a cancellation makes the actor due at once."""
    progress: bool = True
    """Whether this drive got anywhere: resets the count of takeovers."""
    cut_off: bool | None = False
    """Whether what this drive noted is lost; None: it noted nothing that counts, so it is as it was before."""


def load_history(actor_id: uuid.UUID) -> History:
    """The whole live history in one statement."""
    entries: dict[str, Entry] = {}
    owed: dict[tuple[str, int], Compensation] = {}
    width = len(ENTRY_COLUMNS)
    for values in rows(sql.HISTORY, [actor_id, actor_id]):
        if values[0] is not None:
            entry = entry_from(values[:width])
            entries[entry.path] = entry
        else:
            compensation = compensation_from(values[width:])
            owed[compensation.path, compensation.run] = compensation
    runs = ((path, entry.run) for path, entry in entries.items())
    return History(entries, {run[0]: owed[run] for run in runs if run in owed})


def write_changes(lease: Lease, changes: Changes) -> None:
    """Inside a transaction; what makes it safe is the ``fence`` or ``release`` at its end."""
    entries = _with_completions_of_others(lease, changes) if changes.completions else changes.entries
    _upsert(sql.UPSERT_ENTRIES, [lease.actor_id, lease.generation], map(entry_values, entries))
    _upsert(sql.UPSERT_COMPENSATIONS, [lease.actor_id], map(compensation_values, changes.compensations))
    for paths in batches(changes.pruned):
        execute(sql.DELETE_ENTRIES.format(paths=marks(len(paths))), [lease.actor_id, *paths])
        execute(sql.DELETE_COMPENSATIONS.format(paths=marks(len(paths))), [lease.actor_id, *paths])
    _take(lease, sql.TAKE, changes.taken)
    _take(lease, sql.OPEN, changes.opened)
    for completion in changes.completions:
        execute(fill(sql.COMPLETE), [completion.response, lease.actor_id, completion.message_id])
    for messages in batches(changes.returned):
        ids = [message.id for message in messages]
        execute(sql.PUT_BACK.format(ids=marks(len(ids))), [lease.actor_id, *ids])


def fence(lease: Lease, status: str, *, progress: bool = True) -> tuple[str, bool]:
    """Renew the lease; ``LeaseLost`` where another worker has claimed the actor.

    Returns a cancellation that somebody asked for, and whether somebody asked for a pause.
    """
    found = row(fill(sql.FENCE, lease=moment_sql(lease.seconds)), [progress, status, lease.actor_id, lease.epoch])
    if found is None:
        raise LeaseLost
    return str(found[0]), bool(found[1])


def set_error(lease: Lease, error: str | None) -> None:
    """Why the workflow rolls back; None where a cancellation asked for it."""
    execute("UPDATE django_rivet_workflowrun SET error = %s WHERE actor_id = %s", [error, lease.actor_id])


def release(lease: Lease, how: Release) -> None:
    """The last write of a drive."""
    waiting = None if how.queues is None else f",{','.join(how.queues)}," if how.queues else ","
    found = row(
        fill(sql.RELEASE),
        [
            how.progress,
            how.cut_off is None,
            bool(how.cut_off),
            how.status == "failed",
            how.status in CAN_PAUSE,
            how.status,
            how.status in CAN_PAUSE,
            how.status,
            waiting,
            how.output,
            how.status == "failed",
            how.error,
            how.due_on_request,
            how.due_at,
            how.keeps_request,
            lease.actor_id,
            lease.epoch,
        ],
    )
    if found is None:
        raise LeaseLost


def stand_still(lease: Lease) -> bool:
    """Pause an actor right after a takeover; False where nobody wants that any more, or the lease is lost."""
    return row(fill(sql.STAND_STILL), [lease.actor_id, lease.epoch]) is not None


def batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    """As many as one statement takes, again and again."""
    source = iter(items)
    while batch := list(islice(source, ROWS_PER_STATEMENT)):
        yield batch


# Below: how it is done ---------------------------------------------------------------------------


def _with_completions_of_others(lease: Lease, changes: Changes) -> list[Entry]:
    """A wait whose messages several branches complete is written as it is on record, plus what this commit completes:
    neither may take back what another has written, nor tell what another has not.
    """
    mine: dict[str, set[int]] = {}
    for completion in changes.completions:
        mine.setdefault(completion.path, set()).add(completion.message_id)
    shared = [e.path for e in changes.entries if e.path in mine and receive.holds_several(e)]
    stored = {}
    if shared:
        found = EntryRow.objects.using(alias()).select_for_update().filter(actor_id=lease.actor_id, path__in=shared)
        opened = found.filter(retired__isnull=True, status=EntryStatus.OPEN)
        stored = dict(opened.values_list("path", "output"))
    return [
        receive.completed(replace(e, status=EntryStatus.OPEN, output=stored[e.path]), mine[e.path])
        if e.path in stored
        else e
        for e in changes.entries
    ]


def _take(lease: Lease, statement: str, messages: Sequence[ReceivedMessage]) -> None:
    if not messages:
        return
    ids = [message.id for message in messages]
    if execute(fill(statement, ids=marks(len(ids))), [lease.actor_id, *ids]) != len(ids):
        raise LeaseLost  # somebody took a message away between the look and the commit: look again


def _upsert(statement: str, head: Sequence[Any], values: Iterable[list[Any]]) -> None:
    for batch in batches(values):
        one = f"({marks(len(head) + len(batch[0]))})"
        execute(
            statement.format(rows=", ".join([one] * len(batch))),
            [value for each in batch for value in (*head, *each)],
        )
