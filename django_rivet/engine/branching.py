"""Run the branches of a join: at the same time where that can be done, else one after another.

A branch that waits gives its thread back. Once what it waits for may have come it is run again from its records, for
as long as others are running; then the pass ends, and the actor waits for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.baton import BatonWithdrawnError
from django_rivet.engine.current import running_workflow
from django_rivet.engine.exceptions import (
    EntryInProgressError,
    HistoryDivergedError,
    RollbackCheckpointError,
    WorkflowUsageError,
)
from django_rivet.engine.location import child
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.suspend import (
    Broken,
    CancelRequested,
    HandedOver,
    LeaseLost,
    RollbackStopped,
    RunTimedOut,
    Unwind,
    Waiting,
)
from django_rivet.engine.undo import Scope
from django_rivet.engine.verbs import join as verb
from django_rivet.engine.walk import Walk

POLL_SECONDS = 0.5
"""How often a branch that waits for a message looks for it while others are running."""

LOOK_SECONDS = 3600.0
"""At most so long is waited at a time: platforms cannot count to the year 9999."""

MakeContext = Callable[[Walk, Scope, str], Scoped]


class Branch:
    """One branch in one pass, in which it may be run several times."""

    def __init__(self, around: Scoped, path: str, function: Callable[..., Any]) -> None:
        self.path = path
        self.function = function
        self.history = around.walk.history.of_branch(path)
        self.host = around.walk.host.of_branch(self.history)
        self.reason: BaseException | None = None
        """Why its last run has ended before the branch did."""
        self.again_at: datetime | None = None
        """When what it waits for may have come; None: not in this pass."""

    @property
    def is_over(self) -> bool:
        record = self.history.entries.get(self.path)
        return record is not None and record.status in verb.OVER

    def begin(self, around: Walk) -> Walk:
        self.history.enter_branch(self.path)
        self.reason = self.again_at = None
        return Walk(self.host, self.history, around)


class Gathering:
    """The branches of one join in one pass."""

    def __init__(
        self,
        around: Scoped,
        path: str,
        functions: Mapping[str, Callable[..., Any]],
        make_context: MakeContext,
    ) -> None:
        self._around = around
        self._history, self._host = around.walk.history, around.walk.host
        self._make_context = make_context
        self._branches = [Branch(around, child(path, name), function) for name, function in functions.items()]
        self._ready = deque(branch for branch in self._branches if not branch.is_over)
        self._running: list[Branch] = []
        self._waiting: list[Branch] = []
        self._ended: SimpleQueue[Branch] = SimpleQueue()
        self._is_halted = False
        """No branch is started any more: this pass is lost, or its code does not fit the history."""
        self.original: Exception | None = None
        """What failed the first branch that failed in this pass."""

    @property
    def is_settled(self) -> bool:
        return all(branch.is_over for branch in self._branches)

    def settle(self) -> None:
        """Return when every branch has a record; raise what ends the pass before, when each of them has stopped."""
        with self._history.baton.in_use():
            try:
                while self._goes_on():
                    pass
            finally:
                if self._running:
                    # Somebody wants this thread to leave at once, while branches are running on.
                    self._history.baton.withdraw()
            for branch in self._branches:
                self._history.leave_branch(branch.history)
        stopped = [branch for branch in self._branches if branch.reason is not None]
        if stopped:
            raise _most_urgent(stopped, is_undoing=bool(self._history.undoing))

    # Below: how it is done -------------------------------------------------------------------

    def _goes_on(self) -> bool:
        while self._ready and not self._is_halted and self._starts(self._ready[0]):
            self._running.append(self._ready.popleft())
        if self._running:
            self._await_one()
            return True
        if self._ready and not self._is_halted:
            self._run(self._ready[0])
            self._has_stopped(self._ready.popleft())
            return True
        return self._waits_in_memory()

    def _starts(self, branch: Branch) -> bool:
        baton = self._history.baton
        place = baton.stand_in_line()
        has_begun = self._host.run_beside(partial(self._work, branch, place))
        if not has_begun:
            baton.leave_line(place)
        return has_begun

    def _await_one(self) -> None:
        """Until a branch has stopped, or one that waits is due."""
        due = min((branch.again_at for branch in self._waiting if branch.again_at is not None), default=None)
        seconds = None if due is None else min(LOOK_SECONDS, max(0.0, (due - self._host.now()).total_seconds()))
        stopped = None
        with self._history.baton.set_aside(), suppress(Empty):
            stopped = self._ended.get(timeout=seconds)
        if stopped is not None:
            self._running.remove(stopped)
            self._has_stopped(stopped)
        self._call_again()

    def _waits_in_memory(self) -> bool:
        """Nobody runs. Whoever is due so soon that this is not worth another pass is waited for."""
        due = [branch for branch in self._waiting if branch.again_at is not None]
        if not due or self._is_halted or any(not isinstance(b.reason, Waiting) for b in self._branches if b.reason):
            return False
        first = min(due, key=lambda branch: branch.again_at)  # type: ignore[arg-type,return-value]  # those are left out
        assert first.again_at is not None
        try:
            is_near = first.host.pause_until(first.again_at)
        except Unwind as reason:
            first.reason = reason
            return False
        if is_near:
            self._call_again()
        return is_near

    def _call_again(self) -> None:
        now = self._host.now()
        due = [branch for branch in self._waiting if branch.again_at is not None and branch.again_at <= now]
        for branch in due:
            self._waiting.remove(branch)
        self._ready.extend(due)

    def _has_stopped(self, branch: Branch) -> None:
        if isinstance(branch.reason, Waiting):
            self._waiting.append(branch)

    def _work(self, branch: Branch, place: Lock) -> None:
        """In a thread of its own."""
        try:
            with self._history.baton.taken(place):
                self._run(branch)
        except BaseException as error:
            branch.reason = branch.reason or error
        finally:
            self._ended.put(branch)

    def _run(self, branch: Branch) -> None:
        walk = branch.begin(self._around.walk)
        scope = Scope(branch.path, self._around.scope)
        context = self._make_context(walk, scope, f"branch {branch.path.rpartition('/')[2]!r}")
        now = walk.host.now
        try:
            with running_workflow(walk):
                value = branch.function(context)
                walk.refuse_unwinding()
                # What it owes is passed on when its join has ended well.
                context.end()
                output = codec.encode(value)
        except BaseException as error:
            reason = walk.unwinding or error
            if isinstance(reason, Exception) and not isinstance(reason, WorkflowUsageError):
                context.note(verb.branch_failed(branch.path, reason, now()))
                self.original = self.original or reason
            else:
                self._left(branch, reason)
        else:
            context.note(verb.branch_completed(branch.path, output, now()))
        finally:
            context.ended = True
        if branch.reason is None and branch.history.has_completions:
            # Who waits for an answer must not wait for the others as well.
            self._write(branch)

    def _left(self, branch: Branch, reason: BaseException) -> None:
        """Before it was over."""
        branch.reason = reason
        if isinstance(reason, Waiting):
            self._will_wait(branch, reason)
        elif isinstance(reason, (LeaseLost, Broken, HistoryDivergedError)):
            self._is_halted = True
            self._around.walk.halted = reason
        elif not isinstance(reason, (Exception, Unwind)):
            # As if the process had died: nobody else may write anything either.
            self._is_halted = True
            self._history.baton.withdraw()

    def _will_wait(self, branch: Branch, reason: Waiting) -> None:
        now = branch.host.now()
        moments = [] if reason.until is None else [reason.until]
        if reason.queues is not None:
            moments.append(now + timedelta(seconds=POLL_SECONDS))
        branch.again_at = min(moments, default=None)
        # A deadline that is not on record would begin anew after a crash.
        self._write(branch)

    def _write(self, branch: Branch) -> None:
        """What it has noted, where others are still to come: they may take long."""
        if all(each is branch for each in (*self._running, *self._ready)):
            return
        try:
            branch.host.write()
        except BaseException as error:
            self._left(branch, error)


def _most_urgent(stopped: Sequence[Branch], *, is_undoing: bool) -> BaseException:
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


_URGENCY: tuple[type[BaseException], ...] = (
    LeaseLost,
    Broken,
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
