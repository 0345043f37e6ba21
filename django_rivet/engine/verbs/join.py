"""``join``: which branches it has, and what their records make of it. A branch that has a record is not run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.entries import Entry, EntryStatus, Kind
from django_rivet.engine.exceptions import HistoryDivergedError, InvalidStepError
from django_rivet.engine.failures import describe, dump_branch_failure
from django_rivet.engine.location import check_name

OVER = (EntryStatus.COMPLETED, EntryStatus.FAILED)


def check_branches(name: str, path: str, branches: object) -> None:
    """``InvalidStepError`` where it is no dict of names and functions."""
    if not isinstance(branches, Mapping):
        raise InvalidStepError(f"join {name!r}: branches must be a dict of names and functions, not {branches!r}")
    for branch, function in branches.items():
        check_name(branch, path)
        if not callable(function):
            raise InvalidStepError(f"join {name!r}: the branch {branch!r} cannot be called: {function!r}")


def begun(entry: Entry, branches: Iterable[str], now: datetime) -> Entry:
    return replace(entry, status=EntryStatus.RUNNING, output=codec.encode(list(branches)), started_at=now)


def refuse_other_branches(entry: Entry, branches: Mapping[str, Callable[..., Any]]) -> None:
    """``HistoryDivergedError`` where the code has other branches than the record."""
    recorded = codec.decode(entry.output or "[]")
    if set(recorded) != set(branches):
        raise HistoryDivergedError(
            f"the {entry.kind} {entry.name!r} is recorded with the branches {_listed(recorded)}, and the code now has "
            f"{_listed(branches)}: put the old ones back, or give the new {entry.kind} another name"
        )


def branch_completed(path: str, output: str, now: datetime) -> Entry:
    return Entry(path, Kind.BRANCH, EntryStatus.COMPLETED, 0, output=output, ended_at=now)


def branch_failed(path: str, error: Exception, now: datetime) -> Entry:
    entry = Entry(path, Kind.BRANCH, EntryStatus.FAILED, 0, error=describe(error), ended_at=now)
    return replace(entry, output=dump_branch_failure(error, entry.name))


def ended(entry: Entry, branches: Iterable[Entry], now: datetime) -> Entry:
    has_failed = any(branch.status is EntryStatus.FAILED for branch in branches)
    return replace(entry, status=EntryStatus.FAILED if has_failed else EntryStatus.COMPLETED, ended_at=now)


def results(branches: Iterable[Entry]) -> dict[str, Any]:
    """What the branches returned, by their names."""
    return {branch.name: codec.decode(branch.output or "null") for branch in branches}


# Below: how it is done ---------------------------------------------------------------------------


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
