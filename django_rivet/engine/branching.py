"""Run the branches of a join, or a race: at the same time where that can be done, else one after another.

A branch that waits gives its thread back. Once what it waits for may have come it is run again from its records, for
as long as others are running; then the pass ends, and the actor waits for all of them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

from django_rivet.engine import codec
from django_rivet.engine.current import running_workflow
from django_rivet.engine.entries import EntryStatus
from django_rivet.engine.exceptions import HistoryDivergedError, WorkflowUsageError
from django_rivet.engine.location import child
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.suspend import NOTHING_LANDS, RaceLost, Unwind, Waiting
from django_rivet.engine.undo import Scope
from django_rivet.engine.urgency import most_urgent
from django_rivet.engine.verbs import branches as verb
from django_rivet.engine.walk import Walk, breaks_off

POLL_SECONDS = 0.5
"""How often a branch that waits for a message looks for it while others are running."""

LOOK_SECONDS = 3600.0
"""At most so long is waited at a time: platforms cannot count to the year 9999."""

logger = logging.getLogger("django_rivet.workflow")

MakeContext = Callable[[Walk, Scope, str], Scoped]


class Branch:
    """One branch in one pass, in which it may be run several times."""

    def __init__(self, around: Scoped, path: str, function: Callable[..., Any]) -> None:
        self.path = path
        self.function = function
        self.history = around.walk.history.of_branch(path)
        self.host = around.walk.host.of_branch(self.history)
        self.walk = Walk(self.host, self.history, around.walk)
        """That of its last run."""
        self.has_run = False
        self.reason: BaseException | None = None
        """Why that has ended before the branch did."""
        self.again_at: datetime | None = None
        """When what it waits for may have come; None: not in this pass."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def status(self) -> EntryStatus | None:
        """Of its record; None while it has none."""
        record = self.history.entries.get(self.path)
        return record.status if record is not None else None

    @property
    def is_over(self) -> bool:
        return self.status in verb.OVER

    def begin(self) -> Walk:
        self.history.enter_branch(self.path)
        self.has_run = True
        self.reason = self.again_at = None
        self.walk = Walk(self.host, self.history, self.walk.around)
        return self.walk

    def lose(self) -> None:
        self.walk.stop(RaceLost())
        self.host.leave_body()
        if self.walk.gathering is not None:
            self.walk.gathering.lose()


class Gathering:
    """The branches of one join, or race, in one pass."""

    def __init__(
        self,
        around: Scoped,
        path: str,
        functions: verb.Functions,
        make_context: MakeContext,
        *,
        is_race: bool = False,
    ) -> None:
        self._around = around
        self._history, self._host = around.walk.history, around.walk.host
        self._make_context = make_context
        self._branches = [Branch(around, child(path, name), function) for name, function in functions.items()]
        self._ready = deque(branch for branch in self._branches if not branch.is_over)
        self._running: list[Branch] = []
        self._waiting: list[Branch] = []
        self._ended: SimpleQueue[Branch] = SimpleQueue()
        self._is_race = is_race
        self.winner = next((b for b in self._branches if is_race and b.status is EntryStatus.COMPLETED), None)
        self._is_halted = False
        """No branch is started any more: this pass is lost, or its code does not fit the history."""
        self.original: Exception | None = None
        """What failed the first branch that failed in this pass."""

    @property
    def is_settled(self) -> bool:
        return self.winner is not None or all(branch.is_over for branch in self._branches)

    def settle(self) -> None:
        """Return when every branch has a record, or one has won; raise what ends the pass before.

        In any case each of them has stopped.
        """
        self._around.walk.gathering = self
        with self._history.baton.in_use():
            try:
                while self._goes_on():
                    pass
            finally:
                if self._running:
                    # Somebody wants this thread to leave at once, while branches are running on.
                    self._history.baton.withdraw()
            for branch in self._branches:
                if branch.has_run:
                    self._history.leave_branch(branch.history)
        self._around.walk.gathering = None
        stopped = [branch for branch in self._branches if branch.reason is not None and self._counts(branch.reason)]
        if stopped:
            raise most_urgent(stopped, is_undoing=bool(self._history.undoing))

    def lose(self) -> None:
        """A race around it is decided, and not for it."""
        for branch in self._running:
            branch.lose()

    # Below: how it is done -------------------------------------------------------------------

    def _goes_on(self) -> bool:
        while self._ready and not self._is_halted and self._starts(self._ready[0]):
            self._running.append(self._ready.popleft())
        if self._running:
            self._await_one()
            return True
        if self._ready and not self._is_halted:
            branch = self._ready.popleft()
            # In this thread; a race around it has to find it all the same.
            self._running.append(branch)
            self._run(branch)
            self._running.remove(branch)
            self._has_stopped(branch)
            return True
        return self._waits_in_memory()

    def _starts(self, branch: Branch) -> bool:
        baton = self._history.baton
        place = baton.stand_in_line()
        has_begun = self._host.run_beside(partial(self._work, branch, place), partial(self._ended.put, branch))
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
        due = [branch for branch in self._waiting if branch.again_at is not None and self.winner is None]
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
        due = [b for b in self._branches if b in self._waiting and b.again_at is not None and b.again_at <= now]
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

    def _run(self, branch: Branch) -> None:
        walk = branch.begin()
        if self.winner is not None:
            branch.reason = RaceLost()
            return
        context = self._make_context(walk, Scope(branch.path, self._around.scope), f"branch {branch.name!r}")
        now = walk.host.now
        try:
            with running_workflow(walk):
                value = branch.function(context)
                walk.refuse_unwinding()
                # What it owes is passed on when its join has ended well.
                context.end()
                output = codec.encode(value)
        except BaseException as error:
            reason = walk.stop(error) if breaks_off(error) else walk.unwinding or error
            if isinstance(reason, Exception) and not isinstance(reason, WorkflowUsageError):
                context.note(verb.failed(branch.path, reason, now()))
                self.original = self.original or reason
            else:
                self._left(branch, reason)
        else:
            context.note(verb.completed(branch.path, output, now()))
            if self._is_race and not self._is_halted:
                self._wins(branch)
        finally:
            context.ended = True
        if branch.reason is None and branch.history.has_completions:
            # Who waits for an answer must not wait for the others as well.
            self._write(branch)

    def _wins(self, winner: Branch) -> None:
        self.winner = winner
        self._ready.clear()
        self._waiting.clear()
        for branch in self._running:
            if branch is not winner:
                branch.lose()

    def _counts(self, reason: BaseException) -> bool:
        """What has become of the others is nothing to a race that is decided, as long as it can be written down."""
        if self.winner is None or breaks_off(reason):
            return True
        if not isinstance(reason, Unwind):
            logger.warning("a branch that lost against %r failed: %s", self.winner.path, reason)
        return False

    def _left(self, branch: Branch, reason: BaseException) -> None:
        """Before it was over."""
        branch.reason = reason
        if isinstance(reason, Waiting):
            self._will_wait(branch, reason)
        elif isinstance(reason, (*NOTHING_LANDS, HistoryDivergedError)):
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
