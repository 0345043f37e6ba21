"""A history as people and programs read it."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import Q

from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.engine import codec
from django_rivet.engine.entries import FORKS, ErrorInfo, Kind
from django_rivet.engine.location import child, parent
from django_rivet.models import Compensation as CompensationRow
from django_rivet.models import Entry as EntryRow
from django_rivet.store import turns
from django_rivet.store.database import alias
from django_rivet.store.records import UNREADABLE, load_error


@dataclass(frozen=True, slots=True)
class RollbackRecord:
    """How far the rollback of a step is."""

    status: str
    """``owed``, ``completed``, ``failed``, ``settled`` (its scope ended well), ``skipped`` or ``confirmed``."""
    attempts: int
    error: ErrorInfo | None
    handler: str
    outcome: str
    started_at: datetime | None
    ended_at: datetime | None
    note: str | None = None
    """Why an operator skipped it, or how it was undone by hand."""
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry, with what it contains."""

    path: str
    """Names joined by ``/``; an iteration's name is its number."""
    kind: str
    status: str
    attempts: int = 0
    output: Any = None
    error: ErrorInfo | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    due_at: datetime | None = None
    rollback: RollbackRecord | None = None
    children: list[HistoryEntry] = field(default_factory=list)
    seq: int = 0
    """0: it has no record yet, and none in it."""
    branches: tuple[str, ...] = ()
    """Their names, while a join or race is not over."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class HistoryView:
    """Iterates over the entries in the order they happened; ``tree()`` nests them, ``str()`` prints them."""

    def __init__(self, actor_id: uuid.UUID, generation: int | None = None) -> None:
        self._actor_id = actor_id
        self._generation = generation

    def __iter__(self) -> Iterator[HistoryEntry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, path: str) -> HistoryEntry:
        """The entry at ``path``; ``KeyError`` names those that are there."""
        for entry in self._nodes.values():
            if entry.path == path:
                return entry
        raise KeyError(f"{path!r} is not in this history, which has {', '.join(e.path for e in self) or 'no entry'}")

    def tree(self) -> list[HistoryEntry]:
        """The roots. Iterations and blocks that have no record of their own are shown where their entries are.

        Branches that have none are there as well, ``running``, as long as their join or race is not over.
        """
        return self._roots

    def __str__(self) -> str:
        return "\n".join(_lines(self._roots, ""))

    # Below: how it is done -------------------------------------------------------------------

    @cached_property
    def _entries(self) -> list[HistoryEntry]:
        # What has no number yet did not happen: it keeps the run of a step that was set aside.
        rows = EntryRow.objects.using(alias()).filter(actor_id=self._actor_id, seq__gt=0)
        if self._generation is None:
            rows = rows.filter(retired__isnull=True)
        else:
            rows = rows.filter(Q(retired__isnull=True) | Q(retired__gte=self._generation))
            rows = rows.filter(generation__lte=self._generation)
        found = list(rows.order_by("seq", "id"))
        if not found and not turns.exists(self._actor_id):
            raise ActorNotFoundError(f"actor {self._actor_id} does not exist any more")
        undo = {(c.path, c.run): c for c in CompensationRow.objects.using(alias()).filter(actor_id=self._actor_id)}
        return _with_results([entry_of(row, undo.get((row.path, row.run))) for row in found])

    @cached_property
    def _nodes(self) -> dict[str, HistoryEntry]:
        nodes = {entry.path: entry for entry in self._entries}
        for entry in list(nodes.values()):
            scope = parent(entry.path)
            while scope and scope not in nodes:
                around = nodes.get(parent(scope))
                kind = _KIND_OF_SCOPE.get(around.kind if around is not None else "", Kind.BLOCK)
                status = "" if kind is Kind.BLOCK else "running"
                nodes[scope] = HistoryEntry(scope, kind, status, seq=entry.seq)
                scope = parent(scope)
        for entry in self._entries:
            for path in (child(entry.path, name) for name in entry.branches):
                nodes.setdefault(path, HistoryEntry(path, Kind.BRANCH, "running"))
        return nodes

    @cached_property
    def _roots(self) -> list[HistoryEntry]:
        roots: list[HistoryEntry] = []
        for path, node in self._nodes.items():
            siblings = self._nodes[parent(path)].children if parent(path) else roots
            siblings.append(node)
        _sort(roots)
        return roots


_KIND_OF_SCOPE = {str(Kind.LOOP): Kind.ITERATION, str(Kind.JOIN): Kind.BRANCH, str(Kind.RACE): Kind.BRANCH}
"""What stands in it and has no record of its own yet."""


def _with_results(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    """A join has the outputs of its branches, which are stored with those."""
    results: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry.kind == Kind.BRANCH:
            results.setdefault(parent(entry.path), {})[entry.name] = entry.output
    return [
        replace(entry, output=results.get(entry.path, {}))
        if entry.kind == Kind.JOIN and entry.status == "completed"
        else entry
        for entry in entries
    ]


def entry_of(row: EntryRow, undo: CompensationRow | None) -> HistoryEntry:
    """A row, and the one of its compensation, as people and programs read them."""
    return HistoryEntry(
        path=row.path,
        kind=row.kind,
        status=row.status,
        attempts=row.attempts,
        output=output_of(row),
        error=error_of(row.error),
        started_at=row.started_at,
        ended_at=row.ended_at,
        due_at=row.due_at,
        rollback=_rollback(undo) if undo is not None else None,
        seq=row.seq,
        branches=branches_of(row.kind, row.status, row.output),
    )


def branches_of(kind: str, status: str, output: str | None) -> tuple[str, ...]:
    """Those that an entry which is not over was begun with."""
    if kind not in FORKS or status in ("completed", "failed", "cancelled"):
        return ()
    try:
        stored = codec.decode(output or "[]")
    except ValueError:
        return ()
    # Behind them stands who has won.
    names = stored[0] if isinstance(stored, list) and stored else None
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def error_of(text: str | None) -> ErrorInfo | None:
    """Reading history never fails: a damaged record is shown as its text."""
    try:
        return load_error(text)
    except (ValueError, TypeError):
        return ErrorInfo(UNREADABLE, str(text))


def output_of(row: EntryRow) -> Any:
    """What came of an entry. Reading history never fails: a damaged record is shown as its text."""
    try:
        output = codec.decode(row.output) if row.output is not None else None
    except ValueError:
        return row.output
    if row.kind == Kind.JOIN or (row.kind == Kind.BRANCH and row.status == "failed"):
        return None  # what the engine keeps there tells people nothing
    if row.kind == Kind.RACE:
        return output[1] if isinstance(output, list) and len(output) > 1 else None  # its winner
    if row.kind in (Kind.LOOP, Kind.ITERATION) and isinstance(output, list) and output:
        return output[-1]  # what they began with stands before it
    return output


def _rollback(row: CompensationRow) -> RollbackRecord:
    return RollbackRecord(
        row.status,
        row.attempts,
        error_of(row.error),
        row.handler,
        row.outcome,
        row.started_at,
        row.ended_at,
        row.note,
        row.decided_by,
    )


def _sort(nodes: list[HistoryEntry]) -> int:
    """By the first thing that happened in each; returns the first of all."""
    first = {id(node): min(node.seq or sys.maxsize, _sort(node.children)) for node in nodes}
    nodes.sort(key=lambda node: first[id(node)])
    return min(first.values(), default=sys.maxsize)


def _lines(siblings: list[HistoryEntry], indent: str) -> Iterator[str]:
    for node in siblings:
        words = [node.name, node.kind, node.status, _times(node.attempts) if node.attempts else ""]
        if node.error is not None:
            words.append(str(node.error))
        yield indent + "  ".join(word for word in words if word)
        yield from _lines(node.children, indent + "  ")
    # Rollbacks come after what made them necessary, newest first.
    for node in sorted(siblings, key=lambda each: each.seq, reverse=True):
        if node.rollback is not None and node.rollback.status not in {"owed", "settled"}:
            yield indent + _rollback_line(node, node.rollback)


def _rollback_line(node: HistoryEntry, rollback: RollbackRecord) -> str:
    words = {"completed": "rolled back", "failed": "rollback failed", "skipped": "rollback skipped"}
    line = f"{node.name}  {words.get(rollback.status, 'rolled back by hand')}  {_times(rollback.attempts)}"
    if rollback.error is not None:
        line += f"  {rollback.error}"
    return f"{line}  {decision_of(rollback)}" if rollback.note else line


def decision_of(rollback: RollbackRecord) -> str:
    """What an operator noted, and who that was; empty where nobody had to decide anything."""
    return f"{rollback.note} ({rollback.decided_by})" if rollback.decided_by else rollback.note or ""


def _times(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
