"""Perform a join: run the branches that have no record, and make of their records what the workflow gets."""

from __future__ import annotations

from typing import Any

from django_rivet.engine.branching import Gathering, MakeContext
from django_rivet.engine.entries import Entry, EntryStatus, Kind
from django_rivet.engine.failures import join_error
from django_rivet.engine.location import child
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.undo import Scope, hand_over
from django_rivet.engine.verbs import branches as verb


def join(around: Scoped, name: str, branches: verb.Functions, make_context: MakeContext) -> dict[str, Any]:
    """What the branches return, by their names; raises ``JoinError`` where any failed, when all have ended."""
    entry, original = enter(around, name, Kind.JOIN, branches), None
    is_over = entry.status in verb.OVER
    if not is_over:
        gathering = Gathering(around, entry.path, branches, make_context)
        settle(around, entry, gathering)
        original = gathering.original
    records = [around.walk.history.entries[child(entry.path, each)] for each in branches]
    failed = [record for record in records if record.status is EntryStatus.FAILED]
    if not is_over:
        status = EntryStatus.FAILED if failed else EntryStatus.COMPLETED
        around.note(verb.ended(entry, status, around.walk.host.now()))
        if not failed:
            hand_over(around.walk.history, Scope(entry.path, around.scope))
    if failed:
        raise join_error(entry, failed, original)
    return {record.name: verb.value_of(record) for record in records}


def enter(around: Scoped, name: str, kind: Kind, branches: verb.Functions) -> Entry:
    """The record of this join, or race, with the branches that it has had from its beginning."""
    _, entry = around.enter(name, kind)
    verb.check(entry, branches)
    if entry.seq == 0:
        around.walk.host.refuse_anything_new()
        entry = around.note(verb.begun(entry, branches, around.walk.host.now()))
    verb.refuse_others(entry, branches)
    return entry


def settle(around: Scoped, entry: Entry, gathering: Gathering) -> None:
    """Run the branches, with everything on record that was noted before."""
    if not gathering.is_settled:
        around.walk.host.write()
        with around.inside(f"{entry.kind} {entry.name!r}"):
            gathering.settle()
