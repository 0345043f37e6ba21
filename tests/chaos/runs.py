"""The runs of one body, and whether each beyond the first has a cause that is on record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.chaos.crew import Hit
from tests.chaos.ledger import Line


@dataclass(frozen=True, slots=True)
class Run:
    """A body that began."""

    begin: Line
    end: Line | None
    """None: its process was not there any more."""


def runs_of(lines: Iterable[Line]) -> dict[tuple[str, str], list[Run]]:
    """By body and idempotency key, in the order in which they began."""
    found: dict[tuple[str, str], list[Run]] = defaultdict(list)
    open_begins: dict[tuple[int, int], Line] = {}
    ends: dict[int, Line] = {}
    begins = []
    for line in lines:
        who = line.pid, line.thread
        if line.what == "begin":
            open_begins[who] = line
            begins.append(line)
        elif line.what != "stall" and (begun := open_begins.pop(who, None)) is not None:
            ends[id(begun)] = line
    for begin in begins:
        found[begin.body, begin.key].append(Run(begin, ends.get(id(begin))))
    return dict(found)


class Causes:
    """What happened to whom: hits by the fire, and stalls that processes noticed themselves."""

    def __init__(self, hits: Sequence[Hit], lines: Sequence[Line]) -> None:
        self.hits = hits
        self.stalls = [line for line in lines if line.what == "stall"]
        self._begins: dict[tuple[int, int], list[float]] = defaultdict(list)
        for line in lines:
            if line.what == "begin":
                self._begins[line.pid, line.thread].append(line.at)

    def unexplained(self, runs: Sequence[Run]) -> list[Run]:
        """Runs of one body that nothing on record has made necessary."""
        return [later for earlier, later in pairwise(runs) if not self.explain(earlier, later)]

    def explain(self, earlier: Run, later: Run) -> str:
        """Why there is a later run; empty where there is no reason."""
        if earlier.end is not None and earlier.end.what == "planned":
            return "planned"
        begin = earlier.begin
        for hit in self.hits:
            if hit.session and hit.session == begin.session and hit.since <= later.begin.at:
                return hit.kind
            if _is_on(hit, begin) and hit.since <= later.begin.at and hit.until >= begin.at:
                return hit.kind
        if any(s.pid == begin.pid and s.since <= later.begin.at and s.at >= begin.at for s in self.stalls):
            return "stall"
        return "thawed" if self.is_thawed(later.begin) or self.is_thawed(begin) else ""

    def is_thawed(self, begin: Line) -> bool:
        """Whether this was the first that a frozen thread did when it thawed: it cannot know what it has missed."""
        times = [hit.until for hit in self.hits if hit.kind == "freeze" and _is_on(hit, begin)]
        times += [stall.at for stall in self.stalls if stall.pid == begin.pid]
        before = [at for at in self._begins[begin.pid, begin.thread] if at < begin.at]
        return any(at <= begin.at and not any(at < other for other in before) for at in times)


def _is_on(hit: Hit, line: Line) -> bool:
    return hit.pid == line.pid if hit.pid is not None else hit.group == line.group
