"""How a pass over the workflow ended."""

from __future__ import annotations

from dataclasses import dataclass

from django_rivet.engine.entries import ErrorInfo
from django_rivet.engine.suspend import Unwind


@dataclass(frozen=True, slots=True)
class Completed:
    """The function returned."""

    output: str
    """Codec text."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An error left the function."""

    error: ErrorInfo
    through: frozenset[str]
    """Paths of the entries it passed: ``recover()`` puts them back."""
    is_reported: bool
    """Whether the hook was told of it when the step failed."""
    compensates: bool
    """False for usage errors: what is owed stays owed."""


@dataclass(frozen=True, slots=True)
class Diverged:
    """The code does not fit the history."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Suspended:
    """The pass ended before the function did."""

    reason: Unwind


Outcome = Completed | Failed | Diverged | Suspended
