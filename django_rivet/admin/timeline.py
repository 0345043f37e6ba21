"""A time line to scale: when each entry ran, and when it was undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django_rivet.admin import words
from django_rivet.runtime.history_view import HistoryEntry

WIDTH = 1000
"""Of the drawing, in its own units."""

MIN_WIDTH = 8
"""What took no time is still to be seen."""

_OPEN = ("running", "retrying", "pending", "rolling_back")


@dataclass(frozen=True, slots=True)
class Bar:
    """Its numbers are texts, which no language's way of writing numbers can change."""

    kind: str
    """``work``, ``wait``, ``error`` or ``undo``: a class of the style sheet."""
    x: str
    width: str
    is_thin: bool = False
    """Of what only holds others: those did the work, or failed at it."""


class Timeline:
    """From the first to the last moment of the entries shown; what is still open ends now."""

    def __init__(self, roots: Sequence[HistoryEntry], until: datetime) -> None:
        """``until``: now, or the end of a workflow that has ended."""
        moments = [moment for node in _all(roots) for moment in _moments(node)]
        is_open = any(node.status in _OPEN and node.started_at is not None for node in _all(roots))
        self.start = min(moments, default=None)
        end = max(moments, default=None)
        if self.start is not None and end is not None:
            end = max(end, until) if is_open else end
        self.end = end
        self._until = until

    @property
    def is_drawn(self) -> bool:
        return self.length > timedelta(0)

    @property
    def length(self) -> timedelta:
        return self.end - self.start if self.start is not None and self.end is not None else timedelta(0)

    @property
    def is_within_a_day(self) -> bool:
        return self.length < timedelta(hours=20)

    @property
    def shown_start(self) -> str:
        return words.exact(self.start) if self.start is not None else ""

    @property
    def shown_end(self) -> str:
        return words.exact(self.end) if self.end is not None else ""

    @property
    def shown_length(self) -> str:
        return words.duration(self.start, self.end)

    def bars(self, node: HistoryEntry) -> list[Bar]:
        """Of an entry: its work, and beside it, later, how it was undone."""
        return [*self._forward(node), *self.undo_bars(node)]

    def undo_bars(self, node: HistoryEntry) -> list[Bar]:
        undo = node.rollback
        if undo is None or undo.started_at is None:
            return []
        is_undone = undo.status in ("completed", "confirmed", "owed")
        return list(self._bar("undo" if is_undone else "error", undo.started_at, undo.ended_at or self._until))

    # Below: how it is done -------------------------------------------------------------------

    def _forward(self, node: HistoryEntry) -> Iterator[Bar]:
        start = begun(node) or node.ended_at
        if start is None:
            return
        end = node.ended_at or (start if node.status == "cancelled" else self._until)
        if node.status == "failed":
            kind = "error"
        elif node.kind in ("sleep", "message") or node.status in ("retrying", "cancelled"):
            kind = "wait"
        else:
            kind = "work" if node.kind == "step" else "scope"
        yield from self._bar(kind, start, end, is_thin=bool(node.children) or kind == "scope")

    def _bar(self, kind: str, start: datetime, end: datetime, *, is_thin: bool = False) -> Iterator[Bar]:
        if not self.is_drawn or self.start is None:
            return
        x = min(_share(start - self.start, self.length), WIDTH - MIN_WIDTH)
        width = _share(end - start, self.length)
        yield Bar(kind, str(x), str(max(MIN_WIDTH, min(width, WIDTH - x))), is_thin)


def begun(node: HistoryEntry) -> datetime | None:
    """When an entry began; that of a branch is no record of its own, but the first moment of what is in it."""
    if node.started_at is not None or node.kind != "branch":
        return node.started_at
    return min((moment for child in node.children for moment in _moments(child)), default=None)


def _share(part: timedelta, whole: timedelta) -> int:
    return max(0, round(WIDTH * (part / whole)))


def _all(nodes: Sequence[HistoryEntry]) -> Iterator[HistoryEntry]:
    for node in nodes:
        yield node
        yield from _all(node.children)


def _moments(node: HistoryEntry) -> Iterator[datetime]:
    undo = node.rollback
    times = [node.started_at, node.ended_at, *([undo.started_at, undo.ended_at] if undo is not None else [])]
    yield from (moment for moment in times if moment is not None)
