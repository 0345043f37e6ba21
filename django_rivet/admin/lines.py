"""A history drawn as the lines of a tree, in the order of ``str(handle.history())``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from zlib import crc32

from django.utils.translation import gettext

from django_rivet.admin import words
from django_rivet.admin.frames import Trace, read_trace
from django_rivet.admin.text import Excerpt, excerpt, pretty_json, visible
from django_rivet.admin.timeline import Bar, Timeline, begun
from django_rivet.engine.entries import FORKS, ErrorInfo
from django_rivet.runtime.history_view import HistoryEntry, RollbackRecord, decision_of

MAX_OUTPUT = 2000
MAX_VALUE = 60
MAX_MESSAGE = 400
MAX_TRACEBACK = 20_000

OPEN_ITERATIONS = 3
"""Of a loop, at its end; older ones are folded unless something went wrong in them."""

_CALM = ("completed", "cancelled", "")


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


def lines_of(nodes: list[HistoryEntry], timeline: Timeline) -> Iterator[Line]:
    """Rollbacks come after what made them necessary, newest first."""
    iterations = [node for node in nodes if node.kind == "iteration"]
    folded = {node.path for node in iterations[:-OPEN_ITERATIONS] if _is_calm(node)}
    for node in nodes:
        yield _line(node, timeline, is_open=node.path not in folded)
        if node.children:
            yield from lines_of(node.children, timeline)
            yield Line(ends=True)
    for node in sorted(nodes, key=lambda n: n.seq, reverse=True):
        if node.rollback is not None and _has_begun(node.rollback):
            yield _rollback_line(node, node.rollback, timeline)


# Below: how it is done ---------------------------------------------------------------------------


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
    if node.kind in FORKS or node.output in (None, "null", "[null]", "[null,null]") or node.status == "failed":
        return ""
    return str(node.output)


def _undo_note(rollback: RollbackRecord | None) -> str:
    if rollback is None or rollback.status != "owed" or rollback.attempts:
        return ""
    if rollback.outcome == "unknown":
        return gettext("outcome unknown; would be rolled back")
    return gettext("would be rolled back")
