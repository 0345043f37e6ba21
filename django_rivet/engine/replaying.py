"""What ``replay_from()`` sets aside, and how what stays is opened again around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django_rivet.engine import codec
from django_rivet.engine.entries import Compensation, Entry, EntryStatus, Kind, UndoStatus
from django_rivet.engine.location import child, scopes_around
from django_rivet.engine.recovery import Recovery, after_failure, fresh
from django_rivet.engine.verbs.receive import message_ids

NOTE = "set aside by replay_from()"

_OVER = (EntryStatus.COMPLETED, EntryStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Rewind:
    """How the live history changes, and what goes with it."""

    recovery: Recovery
    compensations: tuple[Compensation, ...]
    """With the status that they have from now on."""
    messages: frozenset[int]
    """What the waits that are set aside had received."""


def rewind(
    entries: Mapping[str, Entry], compensations: Iterable[Compensation], step: str | None, now: datetime
) -> Rewind:
    """Set ``step`` and all that was recorded after it aside, by the numbers of the records; None: everything.

    A step that is set aside keeps its idempotency key, but for one that was compensated; so do the earlier ones that
    were compensated and therefore run again. ``compensations``: all that the actor has, whatever their status.
    """
    around = scopes_around(step) if step is not None else []
    first = entries[step].seq if step is not None else 1
    aside = {e.path: e for e in entries.values() if e.seq >= first}
    opened = {path: _opened(entries[path]) for path in around if path in entries and entries[path].kind in _OPENED}
    blocks = [path for path in around if path in entries and entries[path].kind is Kind.BLOCK]
    kept = {p: e for p, e in entries.items() if p not in aside and p not in blocks} | opened
    every = list(compensations)
    undone = [c for c in every if c.status in (UndoStatus.COMPLETED, UndoStatus.CONFIRMED)]
    # What was undone in front of the step runs again as after recover(): nothing may build on it.
    before = after_failure(kept, undone, frozenset())
    replaced = {p: e for p, e in opened.items() if p not in before.removed}
    replaced |= {e.path: e for e in before.replaced}
    run_again = frozenset(e.path for e in before.replaced if e.kind is Kind.STEP)
    # An earlier recover() may have put back what this workflow has not reached again.
    unreached = [e.path for e in kept.values() if e.kind is Kind.STEP and e.status not in _OVER]
    return Rewind(
        Recovery(
            (*replaced.values(), *_numbered_runs(aside.values(), undone)),
            tuple(dict.fromkeys([*aside, *blocks, *before.removed])),
            (*before.unbound, *unreached),
        ),
        tuple(_settled_anew(every, entries, kept.keys() - run_again, frozenset(around), now)),
        frozenset(i for e in aside.values() if e.kind is Kind.MESSAGE for i in message_ids(e)),
    )


def forgotten_iteration(entries: Mapping[str, Entry], step: str) -> str | None:
    """An iteration around the step whose state is not on record any more, so that it cannot be entered again."""
    for path in scopes_around(step):
        loop, _, name = path.rpartition("/")
        is_iteration = loop in entries and entries[loop].kind is Kind.LOOP
        if is_iteration and name != "0" and not {path, child(loop, str(int(name) - 1))} & entries.keys():
            return path
    return None


# Below: how it is done ---------------------------------------------------------------------------

_OPENED = (Kind.LOOP, Kind.ITERATION)


def _opened(entry: Entry) -> Entry:
    """A loop goes on, and an iteration begins again with the state that it began with."""
    if entry.kind is Kind.ITERATION:
        return replace(entry, status=EntryStatus.PENDING, ended_at=None)
    # The value of a loop that was over stands behind what it begins with.
    begins_with = codec.decode(entry.output or "[null]")[:1]
    return replace(entry, status=EntryStatus.RUNNING, output=codec.encode(begins_with), ended_at=None)


def _numbered_runs(aside: Iterable[Entry], undone: Iterable[Compensation]) -> list[Entry]:
    """Placeholders for the steps whose idempotency key is not that of a first run. They have no place in the order."""
    done = {(c.path, c.run) for c in undone}
    runs = {e.path: (e, e.run + ((e.path, e.run) in done)) for e in aside if e.kind is Kind.STEP}
    return [replace(fresh(e, EntryStatus.PLACEHOLDER, run), seq=0, binds=True) for e, run in runs.values() if run]


def _settled_anew(
    compensations: Iterable[Compensation],
    entries: Mapping[str, Entry],
    kept: Iterable[str],
    around: frozenset[str],
    now: datetime,
) -> Iterable[Compensation]:
    kept = frozenset(kept)
    for each in compensations:
        entry = entries.get(each.path)
        if entry is None or entry.run != each.run:
            continue
        if each.path not in kept and each.status in (UndoStatus.OWED, UndoStatus.FAILED):
            yield replace(each, status=UndoStatus.SKIPPED, note=NOTE, due_at=None, ended_at=now)
        elif each.path in kept and each.status is UndoStatus.SETTLED and each.scope in around:
            # The scope that had ended well is open again, and may fail this time.
            yield replace(each, status=UndoStatus.OWED)
