"""What ``recover()`` puts back, and where an iteration begins again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from django_rivet.engine.entries import FORKS, Compensation, Entry, EntryStatus, Kind, UndoStatus
from django_rivet.engine.location import is_under, parent, scopes_around
from django_rivet.engine.verbs.branches import winner_of


@dataclass(frozen=True, slots=True)
class Recovery:
    """How the live history changes; records that are replaced or removed stay readable as an earlier generation."""

    replaced: tuple[Entry, ...] = ()
    """New records for paths whose present ones are set aside."""
    removed: tuple[str, ...] = ()
    """Paths whose records are set aside without a new one."""
    unbound: tuple[str, ...] = ()
    """Paths that are replayed where they are reached, but bind nothing."""


def after_failure(entries: Mapping[str, Entry], undone: Iterable[Compensation], through: frozenset[str]) -> Recovery:
    """Fresh attempts for the entries that the uncaught error passed through, and for the steps that were undone.

    ``undone``: the compensations that were carried out. A failure that the workflow caught stays as recorded.
    """
    failed = [e for p in through if (e := entries.get(p)) is not None and e.status is not EntryStatus.COMPLETED]
    put_back = {e.path: fresh(e, EntryStatus.PENDING, e.run) for e in failed if e.kind not in (*FORKS, Kind.BRANCH)}
    for compensation in undone:
        entry = entries.get(compensation.path)
        if entry is None or entry.run != compensation.run or _is_past(entries, entry.path):
            continue
        # A step that failed, and was undone since its outcome was unknown, begins a new run as well.
        status = put_back[entry.path].status if entry.path in put_back else EntryStatus.PLACEHOLDER
        put_back[entry.path] = fresh(entry, status, entry.run + 1)
    branches = [e.path for e in failed if e.kind is Kind.BRANCH]
    if not put_back:
        return Recovery(tuple(_reopened(entries, branches)), tuple(branches))
    again, removed = _opened_again(entries, (*put_back, *branches))
    removed = list(dict.fromkeys([*removed, *branches]))
    oldest = min(entries[path].seq for path in put_back)
    unbound = [e.path for e in entries.values() if e.seq > oldest and e.path not in put_back and e.path not in removed]
    reopened = [e for e in _reopened(entries, (*put_back, *branches)) if e.path not in removed]
    # What runs again behind something that runs again may not be reached before that has failed a few times.
    replaced = [replace(entry, binds=entry.binds and entry.seq == oldest) for entry in put_back.values()]
    return Recovery((*replaced, *without_binding(unbound, [*again, *reopened])), tuple(removed), tuple(unbound))


def without_binding(unbound: Iterable[str], entries: Iterable[Entry]) -> list[Entry]:
    """``entries``, of which those at the paths ``unbound`` bind nothing: a new record would bind again."""
    loose = frozenset(unbound)
    return [replace(e, binds=e.binds and e.path not in loose) for e in entries]


def fresh(entry: Entry, status: EntryStatus, run: int) -> Entry:
    """The record of an entry that has all of its attempts before it."""
    return replace(
        entry,
        status=status,
        run=run,
        attempts=0,
        interruptions=0,
        output=None,
        error=None,
        failure_kind=None,
        due_at=None,
        started_at=None,
        ended_at=None,
    )


def has_lost(entries: Mapping[str, Entry], path: str) -> bool:
    """Whether it is a branch of a race that another one has won."""
    race, _, name = path.rpartition("/")
    return race in entries and entries[race].kind is Kind.RACE and winner_of(entries[race]) not in (None, name)


# Below: how it is done ---------------------------------------------------------------------------


def _opened_again(entries: Mapping[str, Entry], put_back: Collection[str]) -> tuple[list[Entry], list[str]]:
    """Records around an entry put back that say that something is over: replaced, and removed.

    A loop begins again at its first iteration with such an entry; the ends of all later ones go. A branch, or a block,
    has no outcome any more.
    """
    removed = []
    first: dict[str, int] = {}
    for path in put_back:
        for around in scopes_around(path):
            loop = parent(around)
            if loop in entries and entries[loop].kind is Kind.LOOP:
                number = int(around.rpartition("/")[2])
                first[loop] = min(first.get(loop, number), number)
            elif around in entries and entries[around].kind in (Kind.BLOCK, Kind.BRANCH):
                removed.append(around)
    ends = [e for e in entries.values() if e.kind is Kind.ITERATION and parent(e.path) in first]
    again = [
        replace(e, status=EntryStatus.PENDING, ended_at=None) for e in ends if int(e.name) == first[parent(e.path)]
    ]
    removed += [e.path for e in ends if int(e.name) > first[parent(e.path)]]
    return again, list(dict.fromkeys(removed))


def _reopened(entries: Mapping[str, Entry], put_back: Collection[str]) -> list[Entry]:
    """Loops go on where the workflow failed in them, and like joins and races where an entry in them was put back."""
    return [
        replace(e, status=EntryStatus.RUNNING, ended_at=None)
        for e in entries.values()
        if e.kind in (Kind.LOOP, *FORKS)
        and ((e.kind is Kind.LOOP and e.status is EntryStatus.FAILED) or any(is_under(p, e.path) for p in put_back))
        and e.status is not EntryStatus.RUNNING
    ]


def _is_past(entries: Mapping[str, Entry], path: str) -> bool:
    """Whether it lies in a block that failed and was undone, or in a branch that has lost its race: the workflow was
    given the outcome, and does not come by again.
    """
    return any(_is_failed_block(entries, around) or has_lost(entries, around) for around in scopes_around(path))


def _is_failed_block(entries: Mapping[str, Entry], path: str) -> bool:
    return path in entries and entries[path].kind is Kind.BLOCK and entries[path].status is EntryStatus.FAILED


def handler_again(compensation: Compensation) -> Compensation:
    """A handler that was given up gets fresh attempts."""
    return replace(compensation, status=UndoStatus.OWED, attempts=0, error=None, due_at=None, ended_at=None)
