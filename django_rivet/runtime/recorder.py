"""Every commit of one drive: state, events, notes and changes, and last the seal that makes it safe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django_rivet.actors.actor import Actor
from django_rivet.engine.current import running_hook
from django_rivet.engine.events import ErrorEvent
from django_rivet.engine.history import Changes, History
from django_rivet.runtime.bodies import errors_of_the_database, tell_hook
from django_rivet.runtime.publisher import publish
from django_rivet.runtime.turn import WritingTurn
from django_rivet.store import journal
from django_rivet.store.journal import Release
from django_rivet.store.runs import Claim
from django_rivet.store.transactions import Begun, engine_transaction

NOTHING = Changes()


class Recorder:
    """Writes what the engine noted, together with what a body, a hook or a release adds."""

    def __init__(self, actor: Actor[Any], claim: Claim, history: History) -> None:
        self.actor = actor
        self.lease = claim.lease
        self.history = history
        self.status = claim.status
        self.request = claim.request
        """A cancellation that somebody asked for, as of the last commit."""
        self.told: list[ErrorEvent] = []
        """Failures that are on record, and whose signals are still to be sent."""

    @contextmanager
    def transaction(self) -> Iterator[Begun]:
        # Hooks that a body registered with on_commit run at the end of it: they are no workflow code.
        with running_hook(), engine_transaction() as begun:
            yield begun

    def commit(
        self,
        changes: Changes = NOTHING,
        event: ErrorEvent | None = None,
        *,
        progress: bool = True,
        seal: Callable[[], None] | None = None,
    ) -> None:
        """One transaction for all notes and ``changes``, and for what the hook does when it is told of ``event``.

        ``seal`` is the last statement; the fence by default. ``Broken`` where the database fails.
        """
        with errors_of_the_database():
            turn = WritingTurn(self.actor)
            with self.transaction():
                if event is not None:
                    tell_hook(self.actor, event, turn)
                tells = turn.save()
                self.write(changes, progress=progress, seal=seal)
            self.confirm(changes, tells=tells, event=event)

    def write(self, changes: Changes, *, progress: bool = True, seal: Callable[[], None] | None = None) -> None:
        """Inside ``transaction()``: everything but the turn, which the caller has saved."""
        journal.write_changes(self.lease, self.history.unwritten() + changes)
        if seal is not None:
            seal()
        else:
            self.request = journal.fence(self.lease, self.status, progress=progress)

    def confirm(self, changes: Changes, *, tells: bool, event: ErrorEvent | None = None) -> None:
        """The transaction has committed."""
        self.history.confirm()
        self.history.absorb(changes)
        if tells:
            publish(self.lease.actor_id)
        if event is not None:
            self.told.append(event)

    def release(self, how: Release, event: ErrorEvent | None = None) -> None:
        """The last commit: how the actor is left, and its lease given up."""
        self.commit(event=event, seal=lambda: journal.release(self.lease, how))

    def enter_rollback(self, error: str | None, event: ErrorEvent | None) -> None:
        """The workflow failed, or is cancelled, and owes compensations: that is on record before the first runs."""
        self.status = "rolling_back"
        self.commit(event=event, seal=lambda: self._set_error(error))

    def _set_error(self, error: str | None) -> None:
        journal.set_error(self.lease, error)
        self.request = journal.fence(self.lease, self.status)
