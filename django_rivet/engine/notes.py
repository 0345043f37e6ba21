"""What one strand of a pass has noted, and no commit has written yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from django_rivet.engine.entries import Compensation, Completion, Entry, ReceivedMessage


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
    returned: tuple[ReceivedMessage, ...] = ()
    """Taken by branches that have lost their race: queued again, in their old places."""

    def __add__(self, other: Changes) -> Changes:
        return Changes(
            tuple({e.path: e for e in (*self.entries, *other.entries)}.values()),
            self.pruned + other.pruned,
            self.taken + other.taken,
            tuple({c.path: c for c in (*self.compensations, *other.compensations)}.values()),
            self.opened + other.opened,
            self.completions + other.completions,
            self.returned + other.returned,
        )

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))


class Notes:
    """A later note of the same entry, or compensation, takes the place of the earlier one."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._pruned: list[str] = []
        self._taken: list[ReceivedMessage] = []
        self._compensations: dict[str, Compensation] = {}
        self._opened: list[ReceivedMessage] = []
        self._completions: list[Completion] = []
        self._returned: list[ReceivedMessage] = []

    def entry(self, entry: Entry) -> None:
        self._entries[entry.path] = entry

    def compensation(self, compensation: Compensation) -> None:
        self._compensations[compensation.path] = compensation

    def taken(self, messages: Iterable[ReceivedMessage], *, stay_open: bool) -> None:
        (self._opened if stay_open else self._taken).extend(messages)

    def completions(self, completions: Iterable[Completion]) -> None:
        self._completions.extend(completions)

    def returned(self, messages: Iterable[ReceivedMessage]) -> None:
        self._returned.extend(messages)

    def pruned(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._pruned.append(path)
            self._entries.pop(path, None)
            self._compensations.pop(path, None)

    def add(self, later: Changes) -> None:
        for entry in later.entries:
            self.entry(entry)
        for compensation in later.compensations:
            self.compensation(compensation)
        self._pruned.extend(later.pruned)
        self._taken.extend(later.taken)
        self._opened.extend(later.opened)
        self._completions.extend(later.completions)
        self._returned.extend(later.returned)

    @property
    def has_completions(self) -> bool:
        return bool(self._completions)

    @property
    def changes(self) -> Changes:
        return Changes(
            tuple(self._entries.values()),
            tuple(self._pruned),
            tuple(self._taken),
            tuple(self._compensations.values()),
            tuple(self._opened),
            tuple(self._completions),
            tuple(self._returned),
        )
