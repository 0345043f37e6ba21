"""Every commit of one drive: state, events, notes and changes, and last the seal that makes it safe."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import Error

from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.engine.completing import absorb
from django_rivet.engine.current import running_hook
from django_rivet.engine.events import ErrorEvent
from django_rivet.engine.history import History
from django_rivet.engine.notes import Changes
from django_rivet.engine.suspend import LeaseLost
from django_rivet.runtime import bodies
from django_rivet.runtime.beside import LeftBehindError, beside
from django_rivet.runtime.bodies import errors_of_the_database, tell_hook
from django_rivet.runtime.turn import WritingTurn
from django_rivet.store import journal
from django_rivet.store.conflicts import is_conflict
from django_rivet.store.database import connection
from django_rivet.store.journal import Lease, Release
from django_rivet.store.outages import is_outage
from django_rivet.store.transactions import Begun, engine_transaction

NOTHING = Changes()

MAX_TRIES = 4
"""The last one goes without the hook."""

AWAY_SECONDS = 0.2
"""How soon a database that went away is looked for again."""

logger = logging.getLogger(__name__)


@dataclass
class Standing:
    """Where a drive stands, as of the last commit of any of its branches."""

    is_rolling_back: bool
    """The workflow is undone, and not only a block of it."""
    request: str
    """A cancellation that somebody asked for."""
    pausing: bool
    """Whether somebody asked for a pause; the release carries it out."""
    takeovers: int
    has_progressed: bool = False
    told: list[ErrorEvent] = field(default_factory=list)
    """Failures that are on record, and whose signals are still to be sent."""


class Recorder:
    """Writes what the engine noted, together with what a body, a hook or a release adds."""

    def __init__(self, actor: Actor[Any], lease: Lease, history: History, standing: Standing) -> None:
        self.actor = actor
        self.lease = lease
        self.history = history
        self.standing = standing
        self.takeovers = standing.takeovers
        """As it stood when the drive, or this branch, began; 0 once that has got anywhere."""
        self._hook_ran = False
        self._begun: Begun | None = None

    def of_branch(self, history: History) -> Recorder:
        return Recorder(self.actor, self.lease, history, self.standing)

    @contextmanager
    def transaction(self, idle_limit: float = 0.0) -> Iterator[Begun]:
        # Hooks that a body registered with on_commit run at the end of it: they are no workflow code.
        with running_hook(), engine_transaction(idle_limit=idle_limit) as begun:
            yield begun

    def commit(
        self,
        changes: Changes = NOTHING,
        event: ErrorEvent | None = None,
        *,
        broadcasts: Sequence[tuple[str, str]] = (),
        progress: bool = True,
        seal: Callable[[], None] | None = None,
    ) -> None:
        """One transaction for all notes and ``changes``, and for what the hook does when it is told of ``event``.

        ``seal`` is the last statement; the fence by default. A conflict is met by another try: what is to be recorded
        has happened already. So is a database that went away, for as long as a lease lasts. ``Broken`` where it fails.
        """
        told = event
        with errors_of_the_database():
            failures = outages = 0
            outage_ends = time.monotonic() + self.lease.seconds
            while True:
                if failures == MAX_TRIES - 1:
                    # A hook that was cut off in the middle of a query may have taken the transaction with it.
                    told = None
                commit = partial(self._try_commit, changes, told, broadcasts, progress, seal)
                try:
                    beside(commit, bodies.HOOK_SECONDS if told is not None and self._has_hook else 0.0)
                    break
                except LeftBehindError as late:
                    logger.error("the error hook of %r is left out: %s", self.actor, late)
                    told = None
                except Error as error:
                    if self._is_in_doubt(error):
                        raise
                    is_away = is_outage(error) and not connection().in_atomic_block
                    if is_away and time.monotonic() < outage_ends:
                        # One session that was ended is no outage yet: another one may be had at once.
                        time.sleep(AWAY_SECONDS if outages else 0)
                        outages += 1
                        failures += self._hook_ran
                    else:
                        failures += 1
                        if failures == MAX_TRIES or not (is_conflict(error) or (told is not None and self._hook_ran)):
                            raise
                    logger.warning("recording for %r failed and is tried again: %s", self.actor, error)
            self.confirm(changes, event=event, progress=progress)

    def write_notes(self) -> None:
        """Commit all notes now, where there are any."""
        if self.history.unwritten():
            self.commit()

    def write(self, changes: Changes, *, progress: bool = True, seal: Callable[[], None] | None = None) -> None:
        """Inside ``transaction()``: everything but the turn, which the caller has saved."""
        journal.write_changes(self.lease, self.history.unwritten() + changes)
        if seal is not None:
            seal()
        else:
            is_undoing = self.standing.is_rolling_back or self.history.undoing
            self._fence("rolling_back" if is_undoing else "running", progress=progress)

    def confirm(self, changes: Changes, *, event: ErrorEvent | None = None, progress: bool = True) -> None:
        """The transaction has committed."""
        with self.history.baton.taken():
            if progress:
                self.standing.has_progressed = True
                self.takeovers = self.standing.takeovers = 0
            self.history.confirm()
            absorb(self.history, changes)
            if event is not None:
                self.standing.told.append(event)

    def release(self, how: Release, event: ErrorEvent | None = None) -> None:
        """The last commit: how the actor is left, and its lease given up."""
        self.commit(event=event, seal=lambda: journal.release(self.lease, how))

    def enter_rollback(self, error: str | None, event: ErrorEvent | None) -> None:
        """The workflow failed, or is cancelled, and owes compensations: that is on record before the first runs."""
        self.commit(event=event, seal=lambda: self._set_error(error))
        self.standing.is_rolling_back = True

    def stand_still(self) -> bool:
        """Pause at once what was taken over; False where that is not wanted any more."""
        with errors_of_the_database(), engine_transaction():
            self.standing.pausing = journal.stand_still(self.lease)
        return self.standing.pausing

    # Below: how it is done -------------------------------------------------------------------

    @property
    def _has_hook(self) -> bool:
        workflow = self.actor.definition.workflow
        return workflow is not None and workflow.on_error is not None

    def _is_in_doubt(self, error: Error) -> bool:
        """The commit may have happened. Then it is not tried again: the next drive looks it up in the history."""
        return self._begun is not None and self._begun.is_ending and not is_conflict(error)

    def _set_error(self, error: str | None) -> None:
        journal.set_error(self.lease, error)
        self._fence("rolling_back")

    def _fence(self, status: str, *, progress: bool = True) -> None:
        self.standing.request, self.standing.pausing = journal.fence(self.lease, status, progress=progress)

    def _try_commit(
        self,
        changes: Changes,
        event: ErrorEvent | None,
        broadcasts: Sequence[tuple[str, str]],
        progress: bool,
        seal: Callable[[], None] | None,
    ) -> None:
        turn = WritingTurn(self.actor, broadcasts)
        self._hook_ran = False
        self._begun = None
        with self.transaction(self.lease.seconds + bodies.HOOK_SECONDS if event is not None else 0.0) as self._begun:
            if event is not None:
                self._hook_ran = tell_hook(self.actor, event, turn)
            self._begun.body_has_ended(self.lease.seconds)
            is_gone = turn.actor_is_gone()
            if not is_gone:
                self._save(turn)
                self.write(changes, progress=progress, seal=seal)
        if is_gone:
            raise LeaseLost

    def _save(self, turn: WritingTurn) -> None:
        try:
            turn.save()
        except ActorNotFoundError:
            # Destroyed by somebody else, and the lease with it.
            raise LeaseLost from None
