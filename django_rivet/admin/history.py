"""The newest part of an actor's history."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Substr

from django_rivet.admin.lines import MAX_OUTPUT, Line, lines_of
from django_rivet.admin.text import read_error
from django_rivet.admin.timeline import Timeline
from django_rivet.engine.entries import ErrorInfo
from django_rivet.engine.location import scopes_around
from django_rivet.models import Compensation, Entry
from django_rivet.runtime.history_view import HistoryEntry, HistoryView, RollbackRecord, branches_of
from django_rivet.store.database import alias

MAX_ENTRIES = 500
MAX_SCOPES = 2000
MAX_TRACEBACKS = 50
"""The newest of them."""

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
        return lines_of(self.tree(), timeline)

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
