"""What is recorded, what this pass has visited of it, and what is still to be written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django_rivet.engine.entries import (
    Compensation,
    Completion,
    Entry,
    EntryStatus,
    Kind,
    ReceivedMessage,
    UndoStatus,
)
from django_rivet.engine.exceptions import HistoryDivergedError
from django_rivet.engine.location import child, is_under, parent, scopes_around


@dataclass(frozen=True, slots=True)
class Changes:
    """What one commit adds to the history. Empty changes are falsy."""

    entries: tuple[Entry, ...] = ()
    pruned: tuple[str, ...] = ()
    """Paths of entries that are deleted, with what belongs to them."""
    taken: tuple[ReceivedMessage, ...] = ()
    compensations: tuple[Compensation, ...] = ()
    opened: tuple[ReceivedMessage, ...] = ()
    """Taken, and open until they are completed."""
    completions: tuple[Completion, ...] = ()

    def __add__(self, other: Changes) -> Changes:
        return Changes(
            tuple({e.path: e for e in (*self.entries, *other.entries)}.values()),
            self.pruned + other.pruned,
            self.taken + other.taken,
            tuple({c.path: c for c in (*self.compensations, *other.compensations)}.values()),
            self.opened + other.opened,
            self.completions + other.completions,
        )

    def __bool__(self) -> bool:
        return bool(self.entries or self.pruned or self.taken or self.compensations or self.opened or self.completions)


_REPLAYED = (EntryStatus.COMPLETED, EntryStatus.FAILED, EntryStatus.RUNNING, EntryStatus.OPEN)


@dataclass
class History:
    """One actor's live history in memory.

    Reads see what is recorded and what is noted. Notes are written by the next commit: the store asks for
    ``unwritten()``, and only after the commit ``confirm()`` forgets them; a failed commit leaves all as it was.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    compensations: dict[str, Compensation] = field(default_factory=dict)
    """By path of the step: those that are not yet done or settled."""

    def __post_init__(self) -> None:
        self._last_seq = max((e.seq for e in self.entries.values()), default=0)
        self._last_seq = max([self._last_seq, *(c.seq for c in self.compensations.values())])
        self._names: dict[str, dict[str, None]] = {}
        self.open_waits: dict[str, None] = {}
        """Paths of the waits whose messages are not all completed."""
        for entry in self.entries.values():
            self._index(entry)
        self._recorded_names = {scope: dict(names) for scope, names in self._names.items()}
        self.is_replaying = bool(self.entries)
        """Until the pass meets the first thing that is not over."""
        self.reached = ""
        """The path of the entry that the pass has come to last."""
        self._notes: dict[str, Entry] = {}
        self._pruned: list[str] = []
        self._taken: list[ReceivedMessage] = []
        self._opened: list[ReceivedMessage] = []
        self._completions: list[Completion] = []
        self._undo_notes: dict[str, Compensation] = {}

    def next_seq(self) -> int:
        self._last_seq += 1
        return self._last_seq

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
            # Of a loop's iterations those that have ended are not entered again.
            if around not in self.entries or self.entries[around].kind is not Kind.LOOP:
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

    def children(self, scope: str) -> Iterable[str]:
        """Names recorded or noted directly below ``scope``."""
        return self._names.get(scope, ())

    # Noting ----------------------------------------------------------------------------------

    def note(self, entry: Entry) -> None:
        self.entries[entry.path] = self._notes[entry.path] = entry
        self._index(entry)

    def note_taken(self, messages: Iterable[ReceivedMessage], *, stay_open: bool = False) -> None:
        (self._opened if stay_open else self._taken).extend(messages)

    def note_completions(self, completions: Iterable[Completion]) -> None:
        self._completions.extend(completions)

    def note_compensation(self, compensation: Compensation) -> None:
        self._keep(compensation)
        self._undo_notes[compensation.path] = compensation

    def note_pruned(self, path: str) -> None:
        """Forget this entry and all below it."""
        doomed = [p for p in self.entries if p == path or is_under(p, path)]
        self._pruned.extend(doomed)
        for each in doomed:
            del self.entries[each]
            self._notes.pop(each, None)
            self._undo_notes.pop(each, None)
            self.open_waits.pop(each, None)
        for scope in [s for s in self._names if s == path or is_under(s, path)]:
            del self._names[scope]
        self._names.get(parent(path), {}).pop(path.rpartition("/")[2], None)

    @property
    def taken_ids(self) -> frozenset[int]:
        """Messages that are received but not yet written as such."""
        return frozenset(m.id for m in (*self._taken, *self._opened))

    @property
    def has_completions(self) -> bool:
        """Whether somebody may be waiting for the next commit."""
        return bool(self._completions)

    # Writing ---------------------------------------------------------------------------------

    def unwritten(self) -> Changes:
        return Changes(
            tuple(self._notes.values()),
            tuple(self._pruned),
            tuple(self._taken),
            tuple(self._undo_notes.values()),
            tuple(self._opened),
            tuple(self._completions),
        )

    def confirm(self) -> None:
        """All notes are committed."""
        self._notes.clear()
        self._pruned.clear()
        self._taken.clear()
        self._opened.clear()
        self._completions.clear()
        self._undo_notes.clear()

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
        if entry.status is EntryStatus.OPEN:
            self.open_waits[entry.path] = None
        else:
            self.open_waits.pop(entry.path, None)
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
            is_construct = entry.kind in (Kind.LOOP, Kind.ITERATION, Kind.BLOCK)
            has_outcome = entry.status is EntryStatus.COMPLETED or (
                entry.kind is Kind.BLOCK and entry.status is EntryStatus.FAILED
            )
            if has_outcome or not is_construct:
                return True
        return any(self._binds(child(path, name)) for name in self._names.get(path, ()))
