"""What ``replay_from()`` sets aside, and how what stays is opened again around it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django_rivet.engine import codec
from django_rivet.engine.entries import FORKS, Compensation, Entry, EntryStatus, Kind, ReceivedMessage, UndoStatus
from django_rivet.engine.location import child, is_under, parent, scopes_around
from django_rivet.engine.recovery import Recovery, after_failure, fresh, has_lost, without_binding
from django_rivet.engine.verbs.branches import undecided
from django_rivet.engine.verbs.receive import uncompleted

NOTE = "set aside by replay_from()"

_OVER = (EntryStatus.COMPLETED, EntryStatus.FAILED)

_GO_ON = {
    Kind.LOOP: EntryStatus.RUNNING,
    Kind.ITERATION: EntryStatus.PENDING,
    Kind.JOIN: EntryStatus.RUNNING,
    Kind.RACE: EntryStatus.RUNNING,
}
"""What was cancelled while it held others, and goes on with these."""


@dataclass(frozen=True, slots=True)
class Rewind:
    """How the live history changes, and what goes with it."""

    recovery: Recovery
    compensations: tuple[Compensation, ...]
    """With the status that they have from now on."""
    messages: tuple[ReceivedMessage, ...]
    """What the waits that are set aside had received, and was not completed."""


def rewind(
    entries: Mapping[str, Entry], compensations: Iterable[Compensation], step: str | None, now: datetime
) -> Rewind:
    """Set ``step`` and all that was recorded after it aside, by the numbers of the records; None: everything.

    A step that is set aside keeps its idempotency key, but for one that was compensated; so do the earlier ones that
    were compensated and therefore run again. ``compensations``: all that the actor has, whatever their status.
    """
    aside = _aside(entries, step)
    around = _scopes_around_all(aside.values())
    opened = _opened(entries, aside)
    # A join that is open again may fail this time, and with it what its other branches have done.
    branches = {e.path for e in entries.values() if e.kind is Kind.BRANCH and parent(e.path) in opened}
    over = _no_longer_over(entries, aside, around)
    kept = {p: e for p, e in entries.items() if p not in aside and p not in over} | opened
    every = list(compensations)
    undone = [c for c in every if c.status in (UndoStatus.COMPLETED, UndoStatus.CONFIRMED)]
    # What was undone in front of the step runs again as after recover(): nothing may build on it.
    before = after_failure(kept, undone, frozenset())
    replaced = {e.path: e for e in without_binding(before.unbound, opened.values()) if e.path not in before.removed}
    replaced |= {e.path: e for e in before.replaced}
    run_again = frozenset(e.path for e in before.replaced if e.kind is Kind.STEP)
    # An earlier recover() may have put back what this workflow has not reached again.
    unreached = [e.path for e in kept.values() if e.kind is Kind.STEP and e.status not in _OVER]
    return Rewind(
        Recovery(
            (*replaced.values(), *_numbered_runs(aside.values(), undone)),
            tuple(dict.fromkeys([*aside, *over, *before.removed])),
            (*before.unbound, *unreached),
        ),
        tuple(_settled_anew(every, entries, kept.keys() - run_again, around | branches, now)),
        tuple(m for e in aside.values() if e.kind is Kind.MESSAGE for m in uncompleted(e)),
    )


def forgotten_iteration(entries: Mapping[str, Entry], step: str) -> str | None:
    """An iteration to begin again whose state is not on record any more, so that it cannot be entered."""
    for loop, number in _first_iterations(entries, _aside(entries, step)).items():
        known = {child(loop, str(number)), child(loop, str(number - 1))} & entries.keys()
        if number > 0 and not known:
            return child(loop, str(number))
    return None


# Below: how it is done ---------------------------------------------------------------------------


def _aside(entries: Mapping[str, Entry], step: str | None) -> dict[str, Entry]:
    # What has no number keeps the run of a step that was set aside before.
    first = entries[step].seq if step is not None else 1
    aside = {e.path: e for e in entries.values() if e.seq >= first}
    # What a branch did with a message that it had to give back is nothing without it.
    for given_back, branch in _lost(entries, aside):
        if given_back.kind is Kind.MESSAGE:
            aside |= {e.path: e for e in entries.values() if e.seq >= given_back.seq and is_under(e.path, branch)}
    return aside


def _scopes_around_all(entries: Collection[Entry]) -> frozenset[str]:
    """The scopes that have not ended without these entries, of which some are ends of iterations and branches."""
    around = {scope for e in entries for scope in scopes_around(e.path)}
    return frozenset(around | {e.path for e in entries if e.kind in (Kind.ITERATION, Kind.BRANCH)})


def _first_iterations(entries: Mapping[str, Entry], aside: Mapping[str, Entry]) -> dict[str, int]:
    """Where the loops that stay, and had gone on after the step, begin again.

    They need not be around it: what ``recover()`` put back has run behind it, and may stand in front of it.
    """
    first: dict[str, int] = {}
    for scope in _scopes_around_all(aside.values()):
        loop, _, name = scope.rpartition("/")
        if loop in entries and loop not in aside and entries[loop].kind is Kind.LOOP:
            first[loop] = min(first.get(loop, int(name)), int(name))
    return first


def _opened(entries: Mapping[str, Entry], aside: Mapping[str, Entry]) -> dict[str, Entry]:
    """Joins and races go on, and loops: the iteration begins again with the state that it began with."""
    opened = {
        path: replace(entry if entry.kind is Kind.JOIN else undecided(entry), status=EntryStatus.RUNNING, ended_at=None)
        for path, entry in _forks(entries, aside).items()
    }
    opened |= {
        e.path: replace(e, status=_GO_ON[e.kind], ended_at=None) for e, _ in _lost(entries, aside) if e.kind in _GO_ON
    }
    for loop, number in _first_iterations(entries, aside).items():
        # The value of a loop that was over stands behind what it begins with.
        begins_with = codec.encode(codec.decode(entries[loop].output or "[null]")[:1])
        opened[loop] = replace(entries[loop], status=EntryStatus.RUNNING, output=begins_with, ended_at=None)
        iteration = child(loop, str(number))
        if iteration in entries:
            opened[iteration] = replace(entries[iteration], status=EntryStatus.PENDING, ended_at=None)
    return opened


def _no_longer_over(
    entries: Mapping[str, Entry], aside: Mapping[str, Entry], around: frozenset[str]
) -> dict[str, Entry]:
    """Records of ends that are none any more: of what loses an entry, block or branch, of iterations behind the
    first, and of what a race cancelled that is not decided any more.
    """
    blocks = {p: entries[p] for p in around if p in entries and entries[p].kind in (Kind.BLOCK, Kind.BRANCH)}
    first = _first_iterations(entries, aside)
    ends = {
        e.path: e
        for e in entries.values()
        if e.kind is Kind.ITERATION and parent(e.path) in first and int(e.name) > first[parent(e.path)]
    }
    return blocks | ends | {e.path: e for e, _ in _lost(entries, aside) if e.kind not in _GO_ON}


def _lost(entries: Mapping[str, Entry], aside: Mapping[str, Entry]) -> list[tuple[Entry, str]]:
    """What was cancelled by races that are not decided any more, each with the branch that had lost."""
    forks = _forks(entries, aside)
    cancelled = [e for e in entries.values() if e.status is EntryStatus.CANCELLED and e.path not in aside]
    lost = [(e, next((b for b in (e.path, *scopes_around(e.path)) if has_lost(entries, b)), "")) for e in cancelled]
    return [(e, branch) for e, branch in lost if branch and parent(branch) in forks]


def _forks(entries: Mapping[str, Entry], aside: Mapping[str, Entry]) -> dict[str, Entry]:
    """The joins and races that stay, and have not ended without what is set aside."""
    around = [entries[p] for p in _scopes_around_all(aside.values()) if p in entries and p not in aside]
    return {e.path: e for e in around if e.kind in FORKS}


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
