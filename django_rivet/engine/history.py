"""What is recorded, what this pass has visited of it, and what is still to be written."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from itertools import count

from django_rivet.engine.baton import Baton
from django_rivet.engine.entries import (
    FORKS,
    Compensation,
    Completion,
    Entry,
    EntryStatus,
    Kind,
    ReceivedMessage,
    UndoStatus,
)
from django_rivet.engine.exceptions import HistoryDivergedError
from django_rivet.engine.location import ROOT, child, is_under, parent, scopes_around
from django_rivet.engine.notes import Changes, Notes

_CONSTRUCTS = (Kind.LOOP, Kind.ITERATION, Kind.BLOCK, *FORKS, Kind.BRANCH)

_REPLAYED = (EntryStatus.COMPLETED, EntryStatus.FAILED, EntryStatus.RUNNING, EntryStatus.OPEN)


@dataclass
class History:
    """One actor's live history in memory.

    Reads see what is recorded and what is noted. Notes are written by the next commit: the store asks for
    ``unwritten()``, and only after the commit ``confirm()`` forgets them; a failed commit leaves all as it was.
    A branch of a join sees the same records, and has notes of its own.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    compensations: dict[str, Compensation] = field(default_factory=dict)
    """By path of the step: those that are not yet done or settled."""

    def __post_init__(self) -> None:
        numbers = [*(e.seq for e in self.entries.values()), *(c.seq for c in self.compensations.values())]
        self._seqs = count(max(numbers, default=0) + 1)
        self._names: dict[str, dict[str, None]] = {}
        self.open_waits: dict[str, None] = {}
        """Paths of the waits whose messages are not all completed."""
        self.undoing: dict[str, None] = {}
        """Paths of the blocks that failed, and races that are decided, whose compensations are not all done."""
        for entry in self.entries.values():
            self._index(entry)
        self._recorded_names = {scope: dict(names) for scope, names in self._names.items()}
        self.is_replaying = bool(self.entries)
        """Until the pass meets the first thing that is not over."""
        self.reached = ""
        """The path of the entry that the pass has come to last."""
        self.branch = ROOT
        """The scope of the branch that sees it so."""
        self.baton = Baton()
        """Held by the one strand of the pass that uses all this, while there are several."""
        self._taken_ids: set[int] = set()
        self._notes = Notes()

    def next_seq(self) -> int:
        return next(self._seqs)

    # Branches --------------------------------------------------------------------------------

    def of_branch(self, path: str) -> History:
        """As the branch whose scope is ``path`` sees it."""
        branch = copy(self)
        branch.branch = path
        branch._notes = Notes()
        branch.enter_branch(path)
        return branch

    def enter_branch(self, path: str) -> None:
        """In a branch: it is run from its records, for the first or another time in this pass."""
        for scope, names in self._names.items():
            if scope == path or is_under(scope, path):
                self._recorded_names[scope] = dict(names)
        self.is_replaying = bool(self._names.get(path))
        self.reached = path

    def leave_branch(self, branch: History) -> None:
        """Take over what it has noted."""
        self._notes.add(branch.unwritten())
        branch._notes.clear()
        self.is_replaying = self.is_replaying and branch.is_replaying

    @property
    def is_undoing_here(self) -> bool:
        """Whether a block of this branch failed and its compensations are not all done."""
        return any(is_under(path, self.branch) for path in self.undoing)

    def are_side_by_side(self, path: str, other: str) -> bool:
        """Whether they lie in different branches of one join, or race."""
        around = {path, *scopes_around(path)}
        apart = next((each for each in (other, *scopes_around(other)) if parent(each) in around), None)
        if apart is None or apart in around:
            return False
        fork = self.entries.get(parent(apart))
        return fork is not None and fork.kind in FORKS and path != fork.path

    # Visiting --------------------------------------------------------------------------------

    def visit(self, scope: str, name: str, kind: Kind | None) -> Entry | None:
        """The record at this place, which counts as visited from now on. ``kind`` None: a block without a record."""
        path = self.reached = child(scope, name)
        entry = self.entries.get(path)
        unvisited = self._recorded_names.get(scope, {})
        known = name in unvisited
        unvisited.pop(name, None)
        # What has no number is not recorded: it keeps the run of a step that was set aside, should that come again.
        kept = None
        if entry is not None and not entry.seq:
            kept = entry if entry.kind == kind else None
            entry = None
        recorded_as = entry.kind if entry is not None else "block" if known else None
        if recorded_as is not None and recorded_as != (kind or "block"):
            raise HistoryDivergedError(
                f"{path!r} is recorded as a {recorded_as} and the code now asks for a {kind or 'block'}: "
                "give the new one another name, or put the old code back"
            )
        # A plain block leaves no record of its own, and so is none to be refused.
        if recorded_as is None and kind is not None:
            self.refuse_new(scope, f"the new {kind} {name!r} stands before them")
        is_over = (entry is None and kind is None) or (entry is not None and entry.status in _REPLAYED)
        self.is_replaying = self.is_replaying and is_over
        return entry or kept

    def refuse_new(self, scope: str, reason: str) -> None:
        """Raise ``HistoryDivergedError`` where recorded entries of this scope, or one around it, were not reached."""
        self.refuse_unvisited(scope, reason)
        for around in scopes_around(scope):
            # Of a loop's iterations those that have ended are not entered again; branches come in any order.
            if around not in self.entries or self.entries[around].kind not in (Kind.LOOP, *FORKS):
                self.refuse_unvisited(around, reason)

    def refuse_unvisited(self, scope: str, reason: str) -> None:
        """Raise ``HistoryDivergedError`` where recorded entries of this scope were not reached.

        Doing anything new then would run changed code over a history that it does not know.
        """
        unvisited = [n for n in self._recorded_names.get(scope, ()) if self._binds(child(scope, n))]
        if unvisited:
            names = ", ".join(repr(n) for n in unvisited[:5]) + (" and more" if len(unvisited) > 5 else "")
            where = f"in {scope!r}" if scope else "of this workflow"
            raise HistoryDivergedError(
                f"the recorded entries {names} {where} were not reached, but {reason}: "
                "the code no longer fits the history; put the old code back, or keep new entries behind recorded ones"
            )

    def steps_under_way(self) -> frozenset[str]:
        """The step that the pass has come to, where it was begun, or failed and would be tried again."""
        entry = self.entries.get(self.reached)
        is_open = (
            entry is not None
            and entry.kind is Kind.STEP
            and entry.status in (EntryStatus.RUNNING, EntryStatus.RETRYING)
        )
        return frozenset({self.reached}) if is_open else frozenset()

    def children(self, scope: str) -> Iterable[str]:
        """Names recorded or noted directly below ``scope``."""
        return self._names.get(scope, ())

    # Noting ----------------------------------------------------------------------------------

    def note(self, entry: Entry) -> None:
        self.entries[entry.path] = entry
        self._notes.entry(entry)
        self._index(entry)

    def note_taken(self, messages: Iterable[ReceivedMessage], *, stay_open: bool = False) -> None:
        received = list(messages)
        self._notes.taken(received, stay_open=stay_open)
        self._taken_ids.update(message.id for message in received)

    def note_completions(self, completions: Iterable[Completion]) -> None:
        self._notes.completions(completions)

    def note_returned(self, messages: Iterable[ReceivedMessage]) -> None:
        self._notes.returned(messages)

    def note_compensation(self, compensation: Compensation) -> None:
        self._keep(compensation)
        self._notes.compensation(compensation)

    def note_pruned(self, path: str) -> None:
        """Forget this entry and all below it."""
        doomed = [p for p in self.entries if p == path or is_under(p, path)]
        self._notes.pruned(doomed)
        for each in doomed:
            del self.entries[each]
            self.open_waits.pop(each, None)
        for scope in [s for s in self._names if s == path or is_under(s, path)]:
            del self._names[scope]
        self._names.get(parent(path), {}).pop(path.rpartition("/")[2], None)

    @property
    def taken_ids(self) -> frozenset[int]:
        """Messages that are received, in whichever branch, but not yet written as such."""
        return frozenset(self._taken_ids)

    @property
    def has_completions(self) -> bool:
        """Whether somebody may be waiting for the next commit."""
        return self._notes.has_completions

    # Writing ---------------------------------------------------------------------------------

    def unwritten(self) -> Changes:
        return self._notes.changes

    def confirm(self) -> None:
        """All notes are committed."""
        written = self._notes.changes
        self._taken_ids.difference_update(message.id for message in (*written.taken, *written.opened))
        self._notes.clear()

    def absorb(self, written: Changes) -> None:
        """Take in what a commit wrote beyond the notes."""
        for entry in written.entries:
            self.entries[entry.path] = entry
            self._index(entry)
        for compensation in written.compensations:
            self._keep(compensation)

    # Below: how it is done -------------------------------------------------------------------

    def _keep(self, compensation: Compensation) -> None:
        if compensation.status in (UndoStatus.OWED, UndoStatus.FAILED):
            self.compensations[compensation.path] = compensation
        else:
            self.compensations.pop(compensation.path, None)

    def _index(self, entry: Entry) -> None:
        if not entry.seq:
            return
        for status, paths in ((EntryStatus.OPEN, self.open_waits), (EntryStatus.ROLLING_BACK, self.undoing)):
            if entry.status is status:
                paths[entry.path] = None
            else:
                paths.pop(entry.path, None)
        path = entry.path
        while path:
            scope, _, name = path.rpartition("/")
            names = self._names.setdefault(scope, {})
            if name in names:
                return
            names[name] = None
            path = scope

    def _binds(self, path: str) -> bool:
        entry = self.entries.get(path)
        if entry is not None:
            if not entry.binds:
                return False
            if entry.kind is Kind.STEP:
                return entry.status is EntryStatus.COMPLETED or (
                    not entry.atomic and entry.status is not EntryStatus.PLACEHOLDER
                )
            is_construct = entry.kind in _CONSTRUCTS
            has_outcome = entry.status is EntryStatus.COMPLETED or (
                entry.kind is Kind.BLOCK and entry.status is EntryStatus.FAILED
            )
            if has_outcome or not is_construct:
                return True
        return any(self._binds(child(path, name)) for name in self._names.get(path, ()))
