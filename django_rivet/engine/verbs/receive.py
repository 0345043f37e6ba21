"""``queue.next`` and ``queue.next_batch``: what was received is recorded, and the queue is not asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django_rivet.engine import codec
from django_rivet.engine.decision import Decision, Note, Refuse, Replay, Wait
from django_rivet.engine.durations import later
from django_rivet.engine.entries import Entry, EntryStatus, ReceivedMessage
from django_rivet.engine.failures import queue_timeout


def recorded(entry: Entry, names: Sequence[str]) -> Decision | None:
    """What the record says; None while the wait is open and the mailbox has to be asked."""
    if entry.status is EntryStatus.COMPLETED:
        assert entry.output is not None
        return Replay(codec.decode_record(entry.output, f"the record of the wait {entry.name!r}"))
    if entry.status is EntryStatus.FAILED:
        return Refuse(queue_timeout(entry, names))
    return None


def decide(
    entry: Entry,
    found: Sequence[ReceivedMessage],
    names: tuple[str, ...],
    timeout: float | None,
    *,
    fails_on_timeout: bool,
    now: datetime,
) -> Decision:
    """The mailbox was asked first: a message that is there wins over a deadline that has passed."""
    if found:
        return _ended(entry, [_received(m) for m in found], now)
    due_at = entry.due_at
    if due_at is None and timeout is not None:
        due_at = later(now, timeout, f"the timeout of the wait {entry.name!r}")
    if due_at is not None and due_at <= now:
        if not fails_on_timeout:
            return _ended(entry, [], now)
        return Note(
            replace(
                entry,
                status=EntryStatus.FAILED,
                due_at=due_at,
                started_at=entry.started_at or now,
                ended_at=now,
            )
        )
    begins = due_at is not None and entry.due_at is None
    record = replace(entry, due_at=due_at, started_at=now) if begins else None
    return Wait(due_at, names, record)


# Below: how it is done ---------------------------------------------------------------------------


def _received(message: ReceivedMessage) -> dict[str, object]:
    body = codec.decode_record(message.body, f"message {message.id} of queue {message.queue!r}")
    return {"id": message.id, "name": message.queue, "body": body, "created_at": message.created_at}


def _ended(entry: Entry, output: list[dict[str, object]], now: datetime) -> Note:
    record = replace(
        entry,
        status=EntryStatus.COMPLETED,
        # What was accepted as a message is handed out: it stands two containers deeper here.
        output=codec.encode(output, codec.MAX_DEPTH + 2),
        started_at=entry.started_at or now,
        ended_at=now,
    )
    # What the workflow sees is what a replay will see.
    return Note(record, codec.decode(record.output or "[]"))
