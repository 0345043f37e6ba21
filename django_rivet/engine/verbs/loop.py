"""``loop``: every iteration is a scope; the position is the first iteration whose end is not on record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from django_rivet.engine import codec
from django_rivet.engine.entries import Entry, EntryStatus, Kind
from django_rivet.engine.exceptions import HistoryDivergedError, InvalidStepError, WorkflowUsageError
from django_rivet.engine.history import History
from django_rivet.engine.location import child
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.undo import owes_under

TurnT = TypeVar("TurnT", bound=Scoped)


@dataclass(frozen=True, slots=True)
class Continue:
    """Returned by a loop's function: go on, with this state."""

    state: Any = None


@dataclass(frozen=True, slots=True)
class Break:
    """Returned by a loop's function: the loop is over and has this value."""

    value: Any = None


class Loop(Generic[TurnT]):
    """One call of ``ctx.loop`` in one pass."""

    def __init__(
        self,
        around: Scoped,
        make_turn: Callable[[str, str, int, Any], TurnT],
        name: str,
        state: Any,
        history_prune_interval: int,
        history_size: int | None,
    ) -> None:
        for option, number in (("history_prune_interval", history_prune_interval), ("history_size", history_size)):
            if number is not None and (type(number) is not int or number < 1):
                raise InvalidStepError(f"loop {name!r}: {option} must be a whole number from 1, not {number!r}")
        self.around = around
        self._make_turn = make_turn
        self.interval = history_prune_interval
        self.size = history_size if history_size is not None else history_prune_interval
        self.path, self.entry = around.enter(name, Kind.LOOP)
        if self.entry.seq == 0:
            started = around.walk.host.now()
            self.entry = around.note(
                replace(self.entry, status=EntryStatus.RUNNING, output=codec.encode(state), started_at=started)
            )
        self.label = f"loop {name!r}"

    # What the two forms are made of ----------------------------------------------------------

    @property
    def is_completed(self) -> bool:
        return self.entry.status is EntryStatus.COMPLETED

    @property
    def is_stateful(self) -> bool:
        return self.entry.output not in (None, "null")

    def position(self) -> int:
        """The first iteration whose end is not on record."""
        return max((int(n) + 1 for n in self._history.children(self.path) if self._has_ended(n)), default=0)

    def turn(self, iteration: int) -> TurnT:
        """The context of an iteration; its state is a copy, so that a replay starts from what was recorded."""
        before = self._history.entries.get(child(self.path, str(iteration - 1)))
        recorded = before.output if before is not None else self.entry.output
        path, label = child(self.path, str(iteration)), f"iteration {iteration} of {self.label}"
        return self._make_turn(path, label, iteration, codec.decode(recorded or "null"))

    def end(self, turn: TurnT, state: Any) -> None:
        """An iteration ended well: record that, and forget what is too old."""
        turn.finish()
        host = self.around.walk.host
        turn_path = turn.scope.path
        self.around.note(
            Entry(
                turn_path,
                Kind.ITERATION,
                EntryStatus.COMPLETED,
                0,
                output=codec.encode(state),
                ended_at=host.now(),
            )
        )
        done = turn.iteration + 1
        if done % self.interval == 0:
            self._prune(done - self.size)

    def complete(self, last: int, output: str | None) -> None:
        """The loop is over: ``last`` is the iteration that ended it."""
        if not self.is_completed:
            self.entry = replace(
                self._history.entries[self.path],
                status=EntryStatus.COMPLETED,
                output=output,
                ended_at=self.around.walk.host.now(),
            )
            self.around.note(self.entry)
        self._prune(last + 1 - self.size)

    # Below: how it is done -------------------------------------------------------------------

    @property
    def _history(self) -> History:
        return self.around.walk.history

    def _has_ended(self, name: str) -> bool:
        return child(self.path, name) in self._history.entries

    def _prune(self, below: int) -> None:
        """What an iteration owes keeps it whole: an operator must be able to see what will be undone."""
        for name in [n for n in self._history.children(self.path) if int(n) < below]:
            path = child(self.path, name)
            if not owes_under(self._history, path):
                self._history.note_pruned(path)


def iterate(loop: Loop[TurnT]) -> Generator[TurnT, None, None]:
    """The iterator form. Asking for the next turn ends an iteration well; leaving the ``for`` leaves it open."""
    iteration = loop.position()
    scope = loop.around
    while True:
        turn = loop.turn(iteration)
        scope.open = f"{loop.label}, iteration {iteration},"
        try:
            yield turn
        except GeneratorExit:
            turn.ended = True
            # The initial state stays on record: a replay enters the last iteration again.
            scope.loop_was_left(partial(loop.complete, iteration, loop.entry.output))
            raise
        scope.open = None
        with scope.walk.guarded(scope, interruptible=False):
            if loop.is_completed:
                raise HistoryDivergedError(
                    f"{loop.label} is recorded as left in iteration {iteration}, but the code goes on with it"
                )
            loop.end(turn, turn.state)
            scope.walk.refuse_interruption()
        iteration += 1


def run(loop: Loop[TurnT], function: Callable[..., Any]) -> Any:
    """The function form."""
    if loop.is_completed:
        return codec.decode(loop.entry.output or "null")
    wants_state = _takes_two(function)
    scope = loop.around
    iteration = loop.position()
    while True:
        turn = loop.turn(iteration)
        with scope.inside(f"{loop.label}, iteration {iteration},"):
            outcome = function(turn, turn.state) if wants_state else function(turn)
        if isinstance(outcome, Break):
            output = codec.encode(outcome.value)
            turn.finish()
            loop.complete(iteration, output)
            return codec.decode(output)
        loop.end(turn, _next_state(loop, outcome))
        scope.walk.refuse_interruption()
        iteration += 1


def _next_state(loop: Loop[TurnT], outcome: object) -> Any:
    if isinstance(outcome, Continue):
        return outcome.state
    if outcome is None and not loop.is_stateful:
        return None
    raise WorkflowUsageError(
        f"the function of {loop.label} returned {outcome!r}; "
        + (
            "it has state, so it must return Continue(state) or Break(value)"
            if outcome is None
            else "it must return Continue(state), Break(value) or nothing"
        )
    )


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
