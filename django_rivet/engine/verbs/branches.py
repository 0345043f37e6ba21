"""Branches of a join or a race: which there are, and what their records make of it."""

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

OVER = (EntryStatus.COMPLETED, EntryStatus.FAILED, EntryStatus.CANCELLED)

Functions = Mapping[str, Callable[..., Any]]


def check(entry: Entry, branches: object) -> None:
    """``InvalidStepError`` where it is no dict of names and functions."""
    what = f"{entry.kind} {entry.name!r}"
    if not isinstance(branches, Mapping):
        raise InvalidStepError(f"{what}: branches must be a dict of names and functions, not {branches!r}")
    for name, function in branches.items():
        check_name(name, entry.path)
        if not callable(function):
            raise InvalidStepError(f"{what}: the branch {name!r} cannot be called: {function!r}")


def begun(entry: Entry, branches: Functions, now: datetime) -> Entry:
    return replace(entry, status=EntryStatus.RUNNING, output=codec.encode([list(branches)]), started_at=now)


def refuse_others(entry: Entry, branches: Functions) -> None:
    """``HistoryDivergedError`` where the code has other branches than the record."""
    recorded = _names(entry)
    if set(recorded) != set(branches):
        raise HistoryDivergedError(
            f"the {entry.kind} {entry.name!r} is recorded with the branches {_listed(recorded)}, and the code now has "
            f"{_listed(branches)}: put the old ones back, or give the new {entry.kind} another name"
        )


def ended(entry: Entry, status: EntryStatus, now: datetime) -> Entry:
    return replace(entry, status=status, ended_at=now)


def decided(entry: Entry, winner: str) -> Entry:
    """Who has won is on record as soon as the race is decided."""
    return replace(entry, output=codec.encode([_names(entry), winner]))


def undecided(entry: Entry) -> Entry:
    return replace(entry, output=codec.encode([_names(entry)]))


def winner_of(entry: Entry) -> str | None:
    """None while the race is not decided."""
    stored = codec.decode(entry.output or "[]")
    return stored[1] if len(stored) > 1 else None


def completed(path: str, output: str, now: datetime) -> Entry:
    return Entry(path, Kind.BRANCH, EntryStatus.COMPLETED, 0, output=output, ended_at=now)


def failed(path: str, error: Exception, now: datetime) -> Entry:
    entry = Entry(path, Kind.BRANCH, EntryStatus.FAILED, 0, error=describe(error), ended_at=now)
    return replace(entry, output=dump_branch_failure(error, entry.name))


def cancelled(path: str, now: datetime) -> Entry:
    return Entry(path, Kind.BRANCH, EntryStatus.CANCELLED, 0, ended_at=now)


def value_of(branch: Entry) -> Any:
    return codec.decode(branch.output or "null")


# Below: how it is done ---------------------------------------------------------------------------


def _names(entry: Entry) -> list[str]:
    names: list[str] = codec.decode(entry.output or "[[]]")[0]
    return names


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
