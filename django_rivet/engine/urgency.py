"""What ends a pass, where several of its branches have stopped for different reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from django_rivet.engine.baton import BatonWithdrawnError
from django_rivet.engine.exceptions import (
    EntryInProgressError,
    HistoryDivergedError,
    RollbackCheckpointError,
    WorkflowUsageError,
)
from django_rivet.engine.history import History
from django_rivet.engine.suspend import (
    NOTHING_LANDS,
    CancelRequested,
    HandedOver,
    RaceLost,
    RollbackStopped,
    RunTimedOut,
    Waiting,
)


class Stopped(Protocol):
    """A branch that has ended before it was over."""

    history: History
    reason: BaseException | None


def most_urgent(stopped: Sequence[Stopped], *, is_undoing: bool) -> BaseException:
    """What ends the pass, of all that has ended a branch. A block that is being undone goes before a cancellation."""
    reasons = [branch.reason for branch in stopped if branch.reason is not None]
    if is_undoing:
        reasons = [reason for reason in reasons if not isinstance(reason, CancelRequested)] or reasons
    reason = min(reasons, key=_rank)
    if isinstance(reason, RunTimedOut):
        under_way = (branch.history.steps_under_way() for branch in stopped)
        cut_off = (each.under_way for each in reasons if isinstance(each, RunTimedOut))
        return RunTimedOut(reason.run_timeout, frozenset().union(*under_way, *cut_off))
    if isinstance(reason, Waiting):
        return _for_all([each for each in reasons if isinstance(each, Waiting)])
    return reason


# Below: how it is done ---------------------------------------------------------------------------

_URGENCY: tuple[type[BaseException], ...] = (
    *NOTHING_LANDS,
    RaceLost,
    CancelRequested,
    RunTimedOut,
    HandedOver,
    HistoryDivergedError,
    EntryInProgressError,
    RollbackCheckpointError,
    WorkflowUsageError,
    RollbackStopped,
    Waiting,
)


def _rank(reason: BaseException) -> int:
    if isinstance(reason, BatonWithdrawnError):
        return 0  # somebody else's crash is told by whoever crashed
    found = (rank for rank, kind in enumerate(_URGENCY) if isinstance(reason, kind))
    return next(found, -1)


def _for_all(waits: Sequence[Waiting]) -> Waiting:
    """Until the first of them may be over."""
    queues = [wait.queues for wait in waits if wait.queues is not None]
    wanted: tuple[str, ...] | None = None
    if queues:
        wanted = () if () in queues else tuple(dict.fromkeys(name for names in queues for name in names))
    return Waiting(min((wait.until for wait in waits if wait.until is not None), default=None), wanted)
