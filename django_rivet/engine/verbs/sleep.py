"""``sleep`` and ``sleep_until``: the deadline is set once, and the recorded one wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from django_rivet.engine.decision import Decision, Note, Replay, Wait
from django_rivet.engine.entries import Entry, EntryStatus


def decide(entry: Entry, due_at: Callable[[datetime], datetime], now: datetime) -> Decision:
    """``entry`` is the record; a sleep that has none comes with a fresh one, and only then ``due_at`` is asked."""
    if entry.status is EntryStatus.COMPLETED:
        return Replay(None)
    begun = entry if entry.due_at is not None else replace(entry, due_at=due_at(now), started_at=now)
    assert begun.due_at is not None
    if begun.due_at <= now:
        return Note(replace(begun, status=EntryStatus.COMPLETED, ended_at=now))
    return Wait(begun.due_at, record=None if begun is entry else begun)
