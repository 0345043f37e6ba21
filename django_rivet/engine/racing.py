"""Perform a race: the first branch that returns wins, and the others are put away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django_rivet.engine.branching import Gathering, MakeContext
from django_rivet.engine.entries import Entry, EntryStatus, Kind, ReceivedMessage
from django_rivet.engine.exceptions import WorkflowCancelledError
from django_rivet.engine.failures import race_error
from django_rivet.engine.history import History
from django_rivet.engine.joining import enter, settle
from django_rivet.engine.location import child, is_under
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.undo import Scope, hand_over, owed_under
from django_rivet.engine.undoing import undo_all
from django_rivet.engine.verbs import branches as verb
from django_rivet.engine.verbs.receive import uncompleted

_UNDECIDED = (EntryStatus.PENDING, EntryStatus.RUNNING)


def race(
    around: Scoped, name: str, branches: verb.Functions, make_context: MakeContext, *, rollback_losers: bool
) -> tuple[str, Any]:
    """The name and the value of the winner; raises ``RaceError`` where there is none."""
    history = around.walk.history
    entry = enter(around, name, Kind.RACE, branches)
    if entry.status in _UNDECIDED:
        entry = _decide(around, entry, branches, make_context, rollback_losers=rollback_losers)
    if entry.status is EntryStatus.FAILED:
        raise race_error(entry, _failed(history, entry, branches))
    winner = verb.winner_of(entry)
    assert winner is not None
    if entry.status is EntryStatus.ROLLING_BACK:
        losers = [child(entry.path, each) for each in branches if each != winner]
        undo_all(around, losers, WorkflowCancelledError(f"branch {winner!r} has won race {name!r}"))
        entry = _end(around, entry)
        around.walk.refuse_interruption()
    return winner, verb.value_of(history.entries[child(entry.path, winner)])


# Below: how it is done ---------------------------------------------------------------------------


def _decide(
    around: Scoped, entry: Entry, branches: verb.Functions, make_context: MakeContext, *, rollback_losers: bool
) -> Entry:
    # Where recover() has put back what the winner did, the race is run again, but by nobody else.
    winner = verb.winner_of(entry)
    runners = branches if winner is None else {winner: branches[winner]}
    gathering = Gathering(around, entry.path, runners, make_context, is_race=True)
    settle(around, entry, gathering)
    if gathering.winner is None:
        entry = around.note(verb.ended(entry, EntryStatus.FAILED, around.walk.host.now()))
        raise race_error(entry, _failed(around.walk.history, entry, branches), gathering.original)
    entry = verb.decided(entry, gathering.winner.name)
    losers = [child(entry.path, each) for each in branches if each != gathering.winner.name]
    gives_back = _put_away(around, losers)
    if rollback_losers and owed_under(around.walk.history, *losers):
        entry = around.note(replace(entry, status=EntryStatus.ROLLING_BACK))
    else:
        entry = _end(around, entry)
    if gives_back:
        # Whoever asks for a message next has to find them in their places.
        around.walk.host.write()
    return entry


def _end(around: Scoped, entry: Entry) -> Entry:
    entry = around.note(verb.ended(entry, EntryStatus.COMPLETED, around.walk.host.now()))
    hand_over(around.walk.history, Scope(entry.path, around.scope))
    return entry


def _put_away(around: Scoped, losers: Sequence[str]) -> bool:
    """What had not ended in them is cancelled; whether messages go back that they took and did not complete."""
    history, now = around.walk.history, around.walk.host.now()
    returned: list[ReceivedMessage] = []
    for entry in [e for e in history.entries.values() if e.seq and any(is_under(e.path, loser) for loser in losers)]:
        messages = uncompleted(entry) if entry.kind is Kind.MESSAGE else []
        returned += messages
        if messages or entry.status not in verb.OVER:
            history.note(replace(entry, status=EntryStatus.CANCELLED, due_at=None, ended_at=now))
    for loser in losers:
        if loser not in history.entries:
            around.note(verb.cancelled(loser, now))
    history.note_returned(returned)
    return bool(returned)


def _failed(history: History, race: Entry, branches: verb.Functions) -> list[Entry]:
    records = [history.entries.get(child(race.path, each)) for each in branches]
    return [record for record in records if record is not None and record.status is EntryStatus.FAILED]
