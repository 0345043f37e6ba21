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
from django_rivet.engine.location import child, is_under
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
        self._begins_with: Any = None
        self.interval = history_prune_interval
        self.size = history_size if history_size is not None else history_prune_interval
        self.path, self.entry = around.enter(name, Kind.LOOP)
        if self.entry.seq == 0:
            started = around.walk.host.now()
            self.entry = around.note(
                replace(self.entry, status=EntryStatus.RUNNING, output=codec.encode([state]), started_at=started)
            )
        self.label = f"loop {name!r}"

    # What the two forms are made of ----------------------------------------------------------

    @property
    def is_completed(self) -> bool:
        return self.entry.status is EntryStatus.COMPLETED

    @property
    def initial_state(self) -> Any:
        """What the record holds first; the value of a loop that is over stands behind it."""
        return codec.decode(self.entry.output or "[null]")[0]

    @property
    def value(self) -> Any:
        return codec.decode(self.entry.output or "[null, null]")[1]

    @property
    def is_stateful(self) -> bool:
        return self.initial_state is not None

    def position(self) -> int:
        """The first iteration that was opened again, else the first whose end is not on record."""
        records = {int(n): self._record_of(int(n)) for n in self._history.children(self.path)}
        again = [n for n, record in records.items() if record and record.status is not EntryStatus.COMPLETED]
        if again:
            return min(again)
        return max((n + 1 for n, record in records.items() if record), default=0)

    def turn(self, iteration: int) -> TurnT:
        """The context of an iteration; its state is a copy, so that a replay starts from what was recorded."""
        own, before = self._record_of(iteration), self._record_of(iteration - 1)
        state = self.initial_state
        if own is not None:
            state = _states(own)[0]
        elif before is not None:
            state = _states(before)[1]
        self._begins_with = codec.copy(state)
        path, label = child(self.path, str(iteration)), f"iteration {iteration} of {self.label}"
        return self._make_turn(path, label, iteration, state)

    def end(self, turn: TurnT, state: Any) -> None:
        """An iteration ended well: record that, and forget what is too old."""
        output = codec.encode([self._begins_with, state])
        turn.finish()
        host = self.around.walk.host
        turn_path = turn.scope.path
        self.around.note(
            Entry(
                turn_path,
                Kind.ITERATION,
                EntryStatus.COMPLETED,
                0,
                output=output,
                ended_at=host.now(),
            )
        )
        done = turn.iteration + 1
        if done % self.interval == 0:
            self._prune(done - self.size)

    def leave(self, turn: TurnT, iteration: int) -> None:
        """The ``for`` was left in this iteration, which stays open.

        The initial state stays on record: a replay enters the iteration again.
        """
        turn.close_left_loop()
        self._history.refuse_unvisited(turn.scope.path, f"{turn.label} was left")
        self._complete(None)
        # The end of the iteration before says where the loop stands, and with which state.
        self._prune(min(iteration + 1 - self.size, iteration - 1))

    def break_off(self, turn: TurnT, value: Any) -> None:
        """The function returned ``Break``: its iteration ended well, and with it the loop."""
        turn.finish()
        self._complete(value)
        self._prune(turn.iteration + 1 - self.size)

    # Below: how it is done -------------------------------------------------------------------

    def _complete(self, value: Any) -> None:
        if not self.is_completed:
            self.entry = replace(
                self._history.entries[self.path],
                status=EntryStatus.COMPLETED,
                output=codec.encode([self.initial_state, value]),
                ended_at=self.around.walk.host.now(),
            )
            self.around.note(self.entry)

    @property
    def _history(self) -> History:
        return self.around.walk.history

    def _record_of(self, iteration: int) -> Entry | None:
        return self._history.entries.get(child(self.path, str(iteration)))

    def _prune(self, below: int) -> None:
        """Stops at the first iteration that owes something: should that run again, those behind it are replayed."""
        for number in sorted(int(n) for n in self._history.children(self.path) if int(n) < below):
            path = child(self.path, str(number))
            if owes_under(self._history, path) or any(is_under(each, path) for each in self._history.open_waits):
                return
            self._history.note_pruned(path)


def _states(record: Entry) -> list[Any]:
    """What the iteration began with, and what it handed on: it can begin again where all before it is forgotten."""
    states: list[Any] = codec.decode(record.output or "[null, null]")
    return states


def iterate(loop: Loop[TurnT]) -> Generator[TurnT, None, None]:
    """The iterator form. Asking for the next turn ends an iteration well; leaving the ``for`` leaves it open."""
    iteration = loop.position()
    scope = loop.around
    while True:
        with scope.walk.guarded(scope, interruptible=False):
            turn = loop.turn(iteration)
            scope.open = f"{loop.label}, iteration {iteration},"
        try:
            yield turn
        except GeneratorExit:
            turn.ended = True
            scope.loop_was_left(partial(loop.leave, turn, iteration))
            raise
        with scope.walk.guarded(turn, interruptible=False):
            scope.open = None
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
        return loop.value
    wants_state = _takes_two(function)
    scope = loop.around
    iteration = loop.position()
    while True:
        turn = loop.turn(iteration)
        with scope.inside(f"{loop.label}, iteration {iteration},"), turn.until_left():
            outcome = function(turn, turn.state) if wants_state else function(turn)
            scope.walk.refuse_unwinding()
        if isinstance(outcome, Break):
            value = codec.copy(outcome.value)
            loop.break_off(turn, value)
            return value
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
