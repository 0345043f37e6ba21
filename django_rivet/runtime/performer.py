"""The performer: runs one body, and commits it with its record and all notes."""

from __future__ import annotations

import inspect
import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import Error, IntegrityError

from django_rivet.actors.actor import Actor
from django_rivet.actors.turn import turn_open
from django_rivet.engine.entries import Entry
from django_rivet.engine.exceptions import StepTimeoutError
from django_rivet.engine.notes import Changes
from django_rivet.engine.suspend import Broken, LeaseLost
from django_rivet.runtime.beside import LeftBehindError, Lifeline, beside
from django_rivet.runtime.bodies import Body, BodyError, errors_of_the_body
from django_rivet.runtime.recorder import Recorder
from django_rivet.runtime.turn import ReadingTurn, WritingTurn
from django_rivet.store.conflicts import is_conflict
from django_rivet.store.transactions import no_transaction_left_open
from django_rivet.store.turns import refuse_broken

logger = logging.getLogger(__name__)

MAX_RERUNS = 5
"""How often a body is run again, uncharged, after a deadlock or a lock that was not to be had."""

Record = Callable[[Any], Changes]
"""What a body's value adds to the history."""


class Performer:
    """Bodies of steps, and rollback handlers, of one drive."""

    def __init__(self, actor: Actor[Any], recorder: Recorder, lifeline: Lifeline | None = None) -> None:
        self._actor = actor
        self._recorder = recorder
        self._lifeline = lifeline

    def perform(
        self, body: Body, record: Record, *, atomic: bool, keeps: bool = False, is_handler: bool = False
    ) -> None:
        """Run the body and commit what it did, its record and all notes; after that the history holds the record.

        ``BodyError`` where the body failed: nothing of an atomic one is kept, and the failure is not on record yet.
        ``keeps``: the record need not be committed where the body changed nothing in the database.
        """
        # Who waits for an answer must not wait for this body as well.
        if not atomic or self._recorder.history.has_completions:
            self._recorder.write_notes()
        if not atomic:
            self._run_outside(body, record, keeps=keeps, is_handler=is_handler)
            return
        for rerun in range(MAX_RERUNS + 1):
            try:
                # Whoever has met a conflict takes the turn first, and cannot lose it again.
                atomically = partial(self._run_atomic, body, record, keeps=keeps, is_handler=is_handler, rerun=rerun)
                beside(atomically, body.limit, self._lifeline)
                return
            except LeftBehindError as late:
                raise BodyError(StepTimeoutError(str(late)), rerun) from None
            except BodyError as failure:
                failure.reruns = rerun
                if rerun == MAX_RERUNS or not is_conflict(failure.error):
                    raise
                logger.info("the transaction of actor %s met a conflict and is run again", self._actor.id)
            except IntegrityError as error:
                # Constraints that are checked at the commit are the body's business like all others.
                raise BodyError(error, rerun) from None
            except Error as error:
                if rerun == MAX_RERUNS or not is_conflict(error):
                    raise Broken from error
            time.sleep(random.random() * 0.02 * 2**rerun)  # noqa: S311 - whoever we met should not meet us again

    # Below: how it is done -------------------------------------------------------------------

    def _run_atomic(self, body: Body, record: Record, *, keeps: bool, is_handler: bool, rerun: int) -> None:
        turn = WritingTurn(self._actor)
        # A body that is alive is stopped by its own limit before; one without a limit may think as long as it likes.
        idle_limit = body.limit + self._recorder.lease.seconds if body.limit > 0 else 0.0
        with self._recorder.transaction(idle_limit) as begun:
            with errors_of_the_body(is_handler=is_handler), turn_open(turn):
                if rerun or inspect.iscoroutinefunction(body.function):
                    # A coroutine cannot ask the database for the state when it first looks at it.
                    turn.get_state()
                changes = _all_with_reruns(record(body.run()), rerun)
                begun.body_has_ended(self._recorder.lease.seconds)
                refuse_broken()
                self._save(turn)
            if keeps and begun.changed_nothing:
                begun.wrote_nothing = True
                self._note(changes)
                return
            is_gone = turn.actor_is_gone()
            if not is_gone:
                self._recorder.write(changes)
        if is_gone:
            # The body has destroyed its own actor: that is committed, and there is nothing to record it in.
            raise LeaseLost
        self._recorder.confirm(changes)

    def _save(self, turn: WritingTurn) -> None:
        """What does not fit, or is too large, is the body's error; that the database failed is not."""
        try:
            turn.save()
        except Error as error:
            if is_conflict(error):
                raise
            raise Broken from error

    def _run_outside(self, body: Body, record: Record, *, keeps: bool, is_handler: bool) -> None:
        reading = ReadingTurn(self._actor, where=f"step {body.step.name!r} (not atomic)", may_broadcast=True)

        def run() -> Changes:
            with errors_of_the_body(is_handler=is_handler):
                if inspect.iscoroutinefunction(body.function):
                    reading.get_state()
                with turn_open(reading), no_transaction_left_open():
                    value = body.run()
                reading.complain_if_changed()
                return record(value)

        try:
            changes = beside(run, body.limit, self._lifeline)
        except LeftBehindError as late:
            raise BodyError(StepTimeoutError(str(late))) from None
        if keeps and not reading.events:
            self._note(changes)
            return
        self._recorder.commit(changes, broadcasts=reading.events)

    def _note(self, changes: Changes) -> None:
        history = self._recorder.history
        with history.baton.taken():
            for entry in changes.entries:
                history.note(entry)
            for compensation in changes.compensations:
                history.note_compensation(compensation)
            history.note_completions(changes.completions)


def with_reruns(entry: Entry, times: int) -> Entry:
    """Runs that met a conflict are on record, and not charged."""
    return replace(entry, attempts=entry.attempts + times, interruptions=entry.interruptions + times)


# Below: how it is done ---------------------------------------------------------------------------


def _all_with_reruns(changes: Changes, reruns: int) -> Changes:
    return replace(changes, entries=tuple(with_reruns(entry, reruns) for entry in changes.entries))
