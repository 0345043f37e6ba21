"""What a context is apart from its verbs: a place in the history where entries are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from django_rivet.engine.entries import Entry, EntryStatus, Kind
from django_rivet.engine.exceptions import HistoryDivergedError
from django_rivet.engine.location import check_name, child
from django_rivet.engine.suspend import Waiting
from django_rivet.engine.undo import Scope, hand_over
from django_rivet.engine.walk import Walk


class Scoped:
    """One scope of one pass: the workflow, a turn of a loop, a block, a branch of a join."""

    def __init__(self, walk: Walk, scope: Scope, label: str, iteration: int = 0, state: Any = None) -> None:
        self.walk = walk
        self.scope = scope
        self.label = label
        """How error messages call it."""
        self.iteration = iteration
        """Of the loop whose turn this is, from 0."""
        self.state = state
        """What lasts over the iterations of the loop whose turn this is: change or assign it."""
        self.open: str | None = None
        """The entry that is unfinished in this scope."""
        self.ended = False
        self._left_loop: Callable[[], None] | None = None

    def enter(self, name: object, kind: Kind | None) -> tuple[str, Entry]:
        """The path of a new call and its record; what has none gets a fresh one that is noted nowhere yet."""
        checked = check_name(name, self.scope.path)
        if checked in self.scope.names:
            raise HistoryDivergedError(
                f"the name {checked!r} was used before in {self.label}: names are unique within their scope"
            )
        self.scope.names.add(checked)
        history = self.walk.history
        path = child(self.scope.path, checked)
        entry = history.visit(self.scope.path, checked, kind)
        return path, entry or Entry(path, kind or Kind.BLOCK, EntryStatus.PENDING, 0)

    def finish(self) -> None:
        """The scope ended well: what it owes is passed on, or settled."""
        self.end()
        hand_over(self.walk.history, self.scope)

    def end(self) -> None:
        """Nothing comes in this scope any more."""
        self.close_left_loop()
        self.walk.history.refuse_unvisited(self.scope.path, f"{self.label} ended")
        self.ended = True

    @contextmanager
    def until_left(self) -> Iterator[None]:
        """An exception ends the scope, though not well: its context cannot be used any more."""
        try:
            yield
        except BaseException:
            self.ended = True
            raise

    @contextmanager
    def inside(self, label: str) -> Iterator[None]:
        """While this is open, the scope takes no other entry."""
        self.open = label
        try:
            yield
        finally:
            self.open = None

    def loop_was_left(self, close: Callable[[], None]) -> None:
        """A loop of this scope ended by ``break``; its record is completed with the next entry."""
        self.open = None
        self._left_loop = close

    def close_left_loop(self) -> None:
        close, self._left_loop = self._left_loop, None
        if close is not None:
            close()

    def note(self, entry: Entry) -> Entry:
        """Note a record under the next number; it rides with the next commit."""
        entry = replace(entry, seq=entry.seq or self.walk.history.next_seq())
        self.walk.history.note(entry)
        return entry

    def wait(self, until: datetime | None, queues: tuple[str, ...] | None) -> None:
        """Return once ``until`` has come, where that is so near that waiting in memory is cheaper; else unwind."""
        if until is not None and queues is None and self.walk.host.pause_until(until):
            return
        raise Waiting(until, queues)
