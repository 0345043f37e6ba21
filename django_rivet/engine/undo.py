"""Undo scopes: who owns a completed step, and what becomes of it when a scope ends well.

A checkpoint opens the undo scope it stands in. A step belongs to the nearest scope around it that has a checkpoint
before it. A scope that ends well passes what it owes to the nearest scope around it that has one, else all is
settled. A scope that failed and was caught does nothing: what it owes keeps its place and goes along when the next
scope around it ends well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from django_rivet.engine.entries import Compensation, UndoStatus
from django_rivet.engine.history import History
from django_rivet.engine.location import ROOT, is_under


@dataclass
class Scope:
    """The workflow, one iteration, one branch or one block."""

    path: str = ROOT
    around: Scope | None = None
    checkpoint: str | None = None
    """``stop`` or ``continue``, once a checkpoint was passed in this scope."""
    names: set[str] = field(default_factory=set)
    """Used in this pass."""

    def owner(self) -> Scope | None:
        """The scope that a step called here belongs to."""
        scope: Scope | None = self
        while scope is not None and scope.checkpoint is None:
            scope = scope.around
        return scope


def hand_over(history: History, scope: Scope) -> None:
    """``scope`` ended well: note what becomes of the handlers it owes."""
    heir = scope.around.owner() if scope.around is not None else None
    for owed in list(history.compensations.values()):
        if owed.scope != scope.path and not is_under(owed.scope, scope.path):
            continue
        if heir is None:
            history.note_compensation(replace(owed, status=UndoStatus.SETTLED))
        elif owed.scope != heir.path:
            history.note_compensation(replace(owed, scope=heir.path))


def owed_under(history: History, *paths: str) -> list[Compensation]:
    """The handlers of the steps below ``paths`` that are to run, the one to run first in front."""
    owed = [c for c in history.compensations.values() if any(is_under(c.path, path) for path in paths)]
    return sorted(owed, key=lambda c: c.seq, reverse=True)


def owes_under(history: History, path: str) -> bool:
    return any(is_under(c.path, path) for c in history.compensations.values())
