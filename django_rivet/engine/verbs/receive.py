"""``queue.next`` and ``queue.next_batch``: what was received is recorded, and the queue is not asked again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.decision import Decision, Note, Refuse, Replay, Wait
from django_rivet.engine.durations import later
from django_rivet.engine.entries import Entry, EntryStatus, ReceivedMessage
from django_rivet.engine.failures import queue_timeout


def recorded(entry: Entry, names: Sequence[str]) -> Decision | None:
    """What the record says; None while the wait is open and the mailbox has to be asked."""
    if entry.status in (EntryStatus.COMPLETED, EntryStatus.OPEN):
        return Replay(_messages(entry))
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
    completable: bool,
    now: datetime,
) -> Decision:
    """The mailbox was asked first: a message that is there wins over a deadline that has passed."""
    if found:
        status = EntryStatus.OPEN if completable else EntryStatus.COMPLETED
        return _ended(entry, [_received(m, completable=completable) for m in found], status, now)
    due_at = entry.due_at
    if due_at is None and timeout is not None:
        due_at = later(now, timeout, f"the timeout of the wait {entry.name!r}")
    if due_at is not None and due_at <= now:
        if not fails_on_timeout:
            return _ended(entry, [], EntryStatus.COMPLETED, now)
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


def open_ids(entry: Entry) -> frozenset[int]:
    """The messages of this wait that are still to be completed."""
    if entry.status is not EntryStatus.OPEN:
        return frozenset()
    return frozenset(message["id"] for message in _messages(entry) if not message["completed"])


def uncompleted(entry: Entry) -> list[ReceivedMessage]:
    """The messages that this wait has received, without those that were completed.

    One that was cancelled has none: they went back when its race was decided, and may be another's since.
    """
    is_holding = entry.output is not None and entry.status is not EntryStatus.CANCELLED
    received = _messages(entry) if is_holding else []
    return [
        ReceivedMessage(message["id"], message["name"], codec.encode(message["body"]), message["created_at"])
        for message in received
        if not message.get("completed")
    ]


def holds_several(entry: Entry) -> bool:
    """Whether it has received more than one message."""
    return entry.output is not None and len(_messages(entry)) > 1


def completed(entry: Entry, ids: Collection[int]) -> Entry:
    """The record of a wait of whose messages these are completed, too."""
    messages = [{**message, "completed": message["completed"] or message["id"] in ids} for message in _messages(entry)]
    status = EntryStatus.COMPLETED if all(message["completed"] for message in messages) else EntryStatus.OPEN
    return replace(entry, status=status, output=_text(messages))


# Below: how it is done ---------------------------------------------------------------------------


def _received(message: ReceivedMessage, *, completable: bool) -> dict[str, Any]:
    body = codec.decode_record(message.body, f"message {message.id} of queue {message.queue!r}")
    received = {"id": message.id, "name": message.queue, "body": body, "created_at": message.created_at}
    return {**received, "completed": False} if completable else received


def _messages(entry: Entry) -> list[dict[str, Any]]:
    assert entry.output is not None
    found: list[dict[str, Any]] = codec.decode_record(entry.output, f"the record of the wait {entry.name!r}")
    return found


def _text(messages: list[dict[str, Any]]) -> str:
    # What was accepted as a message is handed out: it stands two containers deeper here.
    return codec.encode(messages, codec.MAX_DEPTH + 2)


def _ended(entry: Entry, output: list[dict[str, Any]], status: EntryStatus, now: datetime) -> Note:
    record = replace(
        entry,
        status=status,
        output=_text(output),
        started_at=entry.started_at or now,
        ended_at=now,
    )
    # What the workflow sees is what a replay will see.
    return Note(record, codec.decode(record.output or "[]"))
