"""Undo what a block, or a branch, did, inside the workflow that lives on."""

from __future__ import annotations

from collections.abc import Sequence

from django_rivet.engine.compensation import AllUndone, RunHandler, Stopped, next_undo
from django_rivet.engine.decision import Wait
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.suspend import RollbackStopped
from django_rivet.engine.undo import owed_under


def undo_all(scoped: Scoped, paths: Sequence[str], cause: Exception) -> None:
    """Compensate the completed steps below ``paths``, newest first; unwinds where a handler has to wait or is given up.

    A cancellation does not stop it; giving the actor away does not harm it.
    """
    walk, host = scoped.walk, scoped.walk.host
    while True:
        match next_undo(owed_under(walk.history, *paths), host.now()):
            case RunHandler(compensation):
                walk.refuse_interruption()
                with scoped.inside(f"the rollback of {compensation.name!r}"):
                    host.run_handler(compensation, cause)
            case Wait(until):
                scoped.wait(until, None)
            case Stopped():
                raise RollbackStopped
            case AllUndone():
                return
