"""Perform a join: run the branches that have no record, and make of their records what the workflow gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django_rivet.engine.branching import Gathering, MakeContext
from django_rivet.engine.entries import Entry, EntryStatus, Kind
from django_rivet.engine.failures import join_error
from django_rivet.engine.location import child
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.undo import Scope, hand_over
from django_rivet.engine.verbs import join as verb


def join(
    around: Scoped, name: str, branches: Mapping[str, Callable[..., Any]], make_context: MakeContext
) -> dict[str, Any]:
    """What the branches return, by their names; raises ``JoinError`` where any failed, when all have ended."""
    walk = around.walk
    path, entry = around.enter(name, Kind.JOIN)
    verb.check_branches(name, path, branches)
    if entry.seq == 0:
        walk.host.refuse_anything_new()
        entry = around.note(verb.begun(entry, branches, walk.host.now()))
    verb.refuse_other_branches(entry, branches)
    original = None
    if entry.status not in verb.OVER:
        original = _settle(around, path, branches, make_context)
    records = [walk.history.entries[child(path, each)] for each in branches]
    if entry.status not in verb.OVER:
        entry = _end(around, entry, records)
    failed = [record for record in records if record.status is EntryStatus.FAILED]
    if failed:
        raise join_error(entry, failed, original)
    return verb.results(records)


# Below: how it is done ---------------------------------------------------------------------------


def _settle(
    around: Scoped, path: str, branches: Mapping[str, Callable[..., Any]], make_context: MakeContext
) -> Exception | None:
    gathering = Gathering(around, path, branches, make_context)
    if not gathering.is_settled:
        around.walk.host.write()
        with around.inside(f"join {path.rpartition('/')[2]!r}"):
            gathering.settle()
    return gathering.original


def _end(around: Scoped, entry: Entry, records: list[Entry]) -> Entry:
    walk = around.walk
    entry = around.note(verb.ended(entry, records, walk.host.now()))
    if entry.status is EntryStatus.COMPLETED:
        hand_over(walk.history, Scope(entry.path, around.scope))
    return entry
