"""The newest part of an actor's history, as the lines of a tree."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from zlib import crc32

from django.db.models import Q, QuerySet
from django.db.models.functions import Substr
from django.utils.translation import gettext

from django_rivet.admin import words
from django_rivet.admin.frames import Trace, read_trace
from django_rivet.admin.text import Excerpt, excerpt, pretty_json, read_error, visible
from django_rivet.admin.timeline import Bar, Timeline, begun
from django_rivet.engine.entries import ErrorInfo
from django_rivet.engine.location import scopes_around
from django_rivet.models import Compensation, Entry
from django_rivet.runtime.history_view import (
    WITH_BRANCHES,
    HistoryEntry,
    HistoryView,
    RollbackRecord,
    branches_of,
    decision_of,
)
from django_rivet.store.database import alias

MAX_ENTRIES = 500
MAX_SCOPES = 2000
MAX_OUTPUT = 2000
MAX_VALUE = 60
MAX_MESSAGE = 400
MAX_TRACEBACK = 20_000
MAX_TRACEBACKS = 50
"""The newest of them."""

OPEN_ITERATIONS = 3
"""Of a loop, at its end; older ones are folded unless something went wrong in them."""

_CALM = ("completed", "cancelled", "")
_COLUMNS = ("path", "kind", "status", "seq", "attempts", "run", "error", "due_at", "started_at", "ended_at")
_UNDO_COLUMNS = (
    "path",
    "run",
    "status",
    "attempts",
    "error",
    "handler",
    "outcome",
    "started_at",
    "ended_at",
    "note",
    "decided_by",
)


@dataclass(frozen=True, slots=True)
class Line:
    """An entry or the rollback of one; ``ends`` alone closes what the last open line with children began."""

    ends: bool = False
    anchor: str = ""
    name: str = ""
    kind: str = ""
    status: str = ""
    word: str = ""
    attempts: str = ""
    started: str = ""
    duration: str = ""
    due: str = ""
    error: Excerpt | None = None
    trace: Trace | None = None
    value: str = ""
    """An output that fits into the line."""
    output: Excerpt | None = None
    """One that does not."""
    note: str = ""
    undone: str = ""
    """What became of what the step did, in words; its rollback stands at ``undo_anchor``."""
    undone_tone: str = ""
    undo_anchor: str = ""
    bars: Sequence[Bar] = ()
    is_rollback: bool = False
    has_children: bool = False
    is_open: bool = True

    @property
    def tone(self) -> str:
        # That a branch lost a race is in the nature of races.
        return "plain" if self.status == "cancelled" else words.tone(self.status)


class RecentHistory(HistoryView):
    """At most ``MAX_ENTRIES`` entries, the newest before ``before``, and the scopes that they stand in.

    An actor may have a million; the number of statements and the size of what they read do not depend on that.
    Outputs are the stored text, cut, not values: a page must not fail where one cannot be decoded.
    """

    def __init__(self, actor_id: uuid.UUID, generation: int | None = None, before: int | None = None) -> None:
        super().__init__(actor_id, generation)
        self._before = before

    @property
    def older_than(self) -> int | None:
        """What ``before`` has to be for the next older part; None where there is none."""
        return self._newest[MAX_ENTRIES - 1]["seq"] if len(self._newest) > MAX_ENTRIES else None

    def lines(self, timeline: Timeline) -> Iterator[Line]:
        return _lines(self.tree(), timeline)

    # Below: how it is done -------------------------------------------------------------------

    @cached_property
    def _newest(self) -> list[dict[str, Any]]:
        rows = self._stored()
        if self._before is not None:
            rows = rows.filter(seq__lt=self._before)
        return list(_read(rows.order_by("-seq", "-id")[: MAX_ENTRIES + 1]))

    @cached_property
    def _entries(self) -> list[HistoryEntry]:
        rows = self._newest[:MAX_ENTRIES]
        paths = {row["path"] for row in rows}
        around = {scope for path in paths for scope in scopes_around(path) if scope} - paths
        if around:
            rows = rows + list(_read(self._stored().filter(path__in=sorted(around)[:MAX_SCOPES])))
        undo = self._undo([row["path"] for row in rows])
        errors = _errors(rows)
        entries = [_entry(row, errors.get(row["path"]), undo.get((row["path"], row["run"]))) for row in rows]
        if self._before is not None or self.older_than is not None:
            # A branch that has a record, in another part of the history, would seem to have none.
            entries = [replace(entry, branches=()) for entry in entries]
        return sorted(entries, key=lambda entry: entry.seq)

    def _stored(self) -> QuerySet[Entry]:
        rows = Entry.objects.using(alias()).filter(actor_id=self._actor_id, seq__gt=0)
        if self._generation is None:
            return rows.filter(retired__isnull=True)
        rows = rows.filter(Q(retired__isnull=True) | Q(retired__gte=self._generation))
        return rows.filter(generation__lte=self._generation)

    def _undo(self, paths: list[str]) -> dict[tuple[str, int], RollbackRecord]:
        found = Compensation.objects.using(alias()).filter(actor_id=self._actor_id, path__in=paths)
        return {(row["path"], row["run"]): _rollback(row) for row in found.values(*_UNDO_COLUMNS)}


# Reading ------------------------------------------------------------------------------------------


def _read(rows: QuerySet[Entry]) -> Any:
    return rows.values(*_COLUMNS, shown=Substr("output", 1, MAX_OUTPUT + 1))


def _errors(newest_first: list[dict[str, Any]]) -> dict[str, ErrorInfo]:
    errors: dict[str, ErrorInfo] = {}
    for row in newest_first:
        error = read_error(row["error"])
        if error is not None:
            has_room = len(errors) < MAX_TRACEBACKS
            errors[row["path"]] = error if has_room else ErrorInfo(error.name, error.message)
    return errors


def _entry(row: dict[str, Any], error: ErrorInfo | None, rollback: RollbackRecord | None) -> HistoryEntry:
    return HistoryEntry(
        path=row["path"],
        kind=row["kind"],
        status=row["status"],
        attempts=row["attempts"],
        output=row["shown"],
        error=error,
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        due_at=row["due_at"],
        rollback=rollback,
        seq=row["seq"],
        branches=branches_of(row["kind"], row["status"], row["shown"]),
    )


def _rollback(row: dict[str, Any]) -> RollbackRecord:
    return RollbackRecord(
        row["status"],
        row["attempts"],
        read_error(row["error"]),
        row["handler"],
        row["outcome"],
        row["started_at"],
        row["ended_at"],
        row["note"],
        row["decided_by"],
    )


# Drawing ------------------------------------------------------------------------------------------


def _lines(nodes: list[HistoryEntry], timeline: Timeline) -> Iterator[Line]:
    """In the order of ``str(handle.history())``: rollbacks after what made them necessary, newest first."""
    iterations = [node for node in nodes if node.kind == "iteration"]
    folded = {node.path for node in iterations[:-OPEN_ITERATIONS] if _is_calm(node)}
    for node in nodes:
        yield _line(node, timeline, is_open=node.path not in folded)
        if node.children:
            yield from _lines(node.children, timeline)
            yield Line(ends=True)
    for node in sorted(nodes, key=lambda n: n.seq, reverse=True):
        if node.rollback is not None and _has_begun(node.rollback):
            yield _rollback_line(node, node.rollback, timeline)


def _is_calm(node: HistoryEntry) -> bool:
    return node.status in _CALM and all(_is_calm(child) for child in node.children)


def _has_begun(rollback: RollbackRecord) -> bool:
    return rollback.status != "settled" and (rollback.status != "owed" or rollback.attempts > 0)


def _line(node: HistoryEntry, timeline: Timeline, *, is_open: bool) -> Line:
    is_iteration = node.kind == "iteration"
    name = visible(node.name)
    output = _output(node)
    is_over = node.status in ("completed", "failed", "open", "cancelled")
    begun_at = begun(node)
    undo = node.rollback if node.rollback is not None and _has_begun(node.rollback) else None
    return Line(
        anchor=_anchor(node),
        name=gettext("iteration %(number)s") % {"number": name} if is_iteration else name,
        kind="" if is_iteration else node.kind,
        status=node.status,
        word=_word(node.status),
        attempts=words.attempts(node.attempts),
        started=_started(begun_at or node.ended_at, timeline),
        duration=words.duration(begun_at, node.ended_at),
        due="" if is_over else _exact(node.due_at),
        error=_message(node.error),
        trace=_trace(node.error),
        value=visible(output) if len(output) <= MAX_VALUE else "",
        output=pretty_json(output, MAX_OUTPUT) if len(output) > MAX_VALUE else None,
        note=_undo_note(node.rollback),
        undone=_undo_word(undo.status) if undo is not None else "",
        undone_tone=words.tone(undo.status) if undo is not None else "",
        undo_anchor=_undo_anchor(node) if undo is not None else "",
        bars=timeline.bars(node),
        has_children=bool(node.children),
        is_open=is_open,
    )


def _rollback_line(node: HistoryEntry, rollback: RollbackRecord, timeline: Timeline) -> Line:
    decision = decision_of(rollback)
    return Line(
        anchor=_undo_anchor(node),
        name=visible(node.name),
        status=rollback.status,
        word=_undo_word(rollback.status),
        attempts=words.attempts(rollback.attempts),
        started=_started(rollback.started_at or rollback.ended_at, timeline),
        duration=words.duration(rollback.started_at, rollback.ended_at),
        error=_message(rollback.error),
        trace=_trace(rollback.error),
        note=visible(f"{rollback.handler}: {decision}" if decision else rollback.handler),
        bars=timeline.undo_bars(node),
        is_rollback=True,
    )


def _anchor(node: HistoryEntry) -> str:
    if not node.seq:
        return f"entry-at-{crc32(node.path.encode())}"
    # A scope without a record of its own has the number of the first entry in it.
    depth = node.path.count("/")
    return f"entry-{node.seq}-{depth}"


def _undo_anchor(node: HistoryEntry) -> str:
    return f"undo-{node.seq}"


def _undo_word(status: str) -> str:
    return {
        "owed": gettext("rollback is tried again"),
        "completed": gettext("rolled back"),
        "failed": gettext("rollback failed"),
        "skipped": gettext("rollback skipped"),
    }.get(status, gettext("rolled back by hand"))


def _started(moment: datetime | None, timeline: Timeline) -> str:
    if moment is None:
        return ""
    return words.clock(moment) if timeline.is_within_a_day else words.exact(moment)


def _exact(moment: datetime | None) -> str:
    return words.exact(moment) if moment is not None else ""


def _word(status: str) -> str:
    # "placeholder" is the engine's word for a step that was rolled back and comes again.
    return gettext("to run again") if status == "placeholder" else status.replace("_", " ")


def _message(error: ErrorInfo | None) -> Excerpt | None:
    return excerpt(str(error), MAX_MESSAGE) if error is not None else None


def _trace(error: ErrorInfo | None) -> Trace | None:
    if error is None:
        return None
    if error.stack:
        return read_trace(error.stack[:MAX_TRACEBACK])
    return Trace(visible(str(error)[:MAX_TRACEBACK])) if len(str(error)) > MAX_MESSAGE else None


def _output(node: HistoryEntry) -> str:
    # The output of a failed block is its failure once more; what branches returned stands with them.
    if node.kind in WITH_BRANCHES or node.output in (None, "null", "[null]", "[null,null]") or node.status == "failed":
        return ""
    return str(node.output)


def _undo_note(rollback: RollbackRecord | None) -> str:
    if rollback is None or rollback.status != "owed" or rollback.attempts:
        return ""
    if rollback.outcome == "unknown":
        return gettext("outcome unknown; would be rolled back")
    return gettext("would be rolled back")
