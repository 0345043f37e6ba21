"""The words that a workflow function calls."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar, overload

from django_rivet.engine import codec
from django_rivet.engine.decision import Note, Replay, Wait
from django_rivet.engine.durations import Duration, later, point_in_time, seconds
from django_rivet.engine.entries import Entry, EntryStatus, Failure, FailureKind, Kind, Result
from django_rivet.engine.exceptions import InvalidStepError, WorkflowFailedError, WorkflowUsageError
from django_rivet.engine.failures import dump_failure, failure_of, load_failure, origin_of
from django_rivet.engine.joining import join
from django_rivet.engine.mailbox import Mailbox
from django_rivet.engine.racing import race
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.stepping import Body, perform
from django_rivet.engine.undo import Scope
from django_rivet.engine.undoing import undo_all
from django_rivet.engine.verbs import block as blocks
from django_rivet.engine.verbs import loop as loops
from django_rivet.engine.verbs import sleep
from django_rivet.engine.walk import Walk, verb

T = TypeVar("T")

DEFAULT_TRY_CATCH = ("critical", "timeout", "exhausted", "interrupted")


class Context(Scoped):
    """What ``ctx``, a loop's ``turn`` and a block's context are.

    Names are 1 to 200 characters without ``/`` and control characters, unique within their scope. Code between the
    calls has to be deterministic: it runs again on every replay. Usage errors are never retried or compensated.
    """

    def __init__(self, walk: Walk, scope: Scope, label: str, iteration: int = 0, state: Any = None) -> None:
        super().__init__(walk, scope, label, iteration, state)
        self.queue = Mailbox(self)

    # Steps -----------------------------------------------------------------------------------

    @verb
    def step(
        self, name: str, fn: Callable[..., T], *args: Any, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> T:
        """Run ``fn(*args, **kwargs)`` once and record its value; later passes get the record.

        Options and defaults: see ``StepOptions``. Raises ``StepExhaustedError`` after the last retry, and
        ``CriticalError``, ``RollbackError``, ``StepTimeoutError`` or ``StepInterruptedError`` at once.
        After a crash an atomic body has left nothing and runs again; one with ``atomic=False`` may have left its
        effect, and runs again under the same ``idempotency_key``.
        """
        value: T = perform(self, name, Body(fn, args, kwargs if kwargs is not None else {}), options)
        return value

    @verb
    def try_step(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        catch: Collection[str] = DEFAULT_TRY_CATCH,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Result:
        """``step``, with a final failure of a kind in ``catch`` as data. Retries, and their waits, come first.

        Kinds: ``critical``, ``timeout``, ``exhausted``, ``interrupted`` and, only where named, ``rollback``.
        """
        _check_catch(name, catch, tuple(FailureKind))
        try:
            return Result(True, perform(self, name, Body(fn, args, kwargs if kwargs is not None else {}), options))
        except Exception as error:
            origin = origin_of(error)
            if origin is None or origin.source != "step" or origin.failure.kind not in catch:
                raise
            return Result(False, failure=origin.failure)

    # Scopes ----------------------------------------------------------------------------------

    @verb
    def try_block(
        self,
        name: str,
        fn: Callable[[Context], Any],
        catch: Collection[str] = blocks.DEFAULT_CATCH,
        rollback: bool = False,
    ) -> Result:
        """Call ``fn(block)``, and give a failure in it back as data.

        Plain: the failures named in ``catch``; nothing is undone, the block leaves no record and is entered on each
        pass. With ``rollback=True``: everything but usage errors is caught, the completed steps of the block are
        compensated, newest first, and then the failure is returned; the outcome is recorded, and the block is not
        entered again.
        """
        if rollback:
            return self._saga(name, fn)
        _check_catch(name, catch, blocks.CATCHABLE)
        path, _ = self.enter(name, None)
        block = self._inner(path, f"block {name!r}")
        with self.inside(block.label):
            try:
                value = fn(block)
                self.walk.refuse_unwinding()
                block.close_left_loop()
            except WorkflowUsageError:
                raise
            except Exception as error:
                self.walk.refuse_unwinding()
                failure = blocks.caught(error, catch, name)
                if failure is None:
                    raise
                block.ended = True
                return Result(False, failure=failure)
        block.finish()
        return Result(True, value)

    @overload
    def loop(
        self, name: str, *, state: Any = None, history_prune_interval: int = 20, history_size: int | None = None
    ) -> Iterator[Context]: ...
    @overload
    def loop(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        state: Any = None,
        history_prune_interval: int = 20,
        history_size: int | None = None,
    ) -> Any: ...
    @verb
    def loop(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        *,
        state: Any = None,
        history_prune_interval: int = 20,
        history_size: int | None = None,
    ) -> Any:
        """``for turn in ctx.loop(name)``, or ``ctx.loop(name, fn)`` with ``fn(turn, state)``.

        Each iteration is a scope of its own, so names repeat. A replay enters at the first iteration that has not
        ended on record; what must last is ``turn.state``, or the state that ``fn`` gives to ``Continue``.
        Iterations older than ``history_size`` (default: the interval) are forgotten every
        ``history_prune_interval``, except those that still owe a compensation.
        """
        loop = loops.Loop(self, self._turn, name, state, history_prune_interval, history_size)
        return loops.iterate(loop) if fn is None else loops.run(loop, fn)

    @verb
    def join(self, name: str, branches: Mapping[str, Callable[[Context], Any]]) -> dict[str, Any]:
        """Call each ``branch function(branch)`` and give back what they return, by their names; ``branch`` is a
        context of its own.

        Their steps run at the same time, in threads, as long as the bodies touch neither ``self.state`` nor, on
        SQLite, the database; their workflow code runs one after another. All branches are run to their ends:
        ``JoinError`` where any failed, with what failed them in ``errors``. One that has ended is not run again. The
        branches that a join has when it begins are on record: other names later are ``HistoryDivergedError``.
        """
        return join(self, name, branches, Context)

    @verb
    def race(
        self, name: str, branches: Mapping[str, Callable[[Context], Any]], rollback_losers: bool = False
    ) -> tuple[str, Any]:
        """As ``join``, but the first branch that returns wins: its name, and its value.

        The others stop: bodies that are running are cut off, nothing of theirs lands any more, and the messages that
        they took and did not complete go back to their places. What their completed steps owe is undone at once with
        ``rollback_losers``, else together with what is around the race, if ever. A branch that fails or waits has not
        lost yet; ``RaceError`` where all have failed, or there are none.
        """
        return race(self, name, branches, Context, rollback_losers=rollback_losers)

    @verb
    def rollback_checkpoint(self, name: str, on_handler_failure: str = "stop") -> None:
        """Open this scope for rollback: steps after it may have handlers.

        ``on_handler_failure``: whether older handlers run (``"continue"``) or wait for an operator (``"stop"``)
        after one is out of attempts.
        """
        if on_handler_failure not in ("stop", "continue"):
            raise InvalidStepError(
                f"checkpoint {name!r}: on_handler_failure must be 'stop' or 'continue', not {on_handler_failure!r}"
            )
        _, entry = self.enter(name, Kind.CHECKPOINT)
        self.scope.checkpoint = on_handler_failure
        if entry.seq == 0:
            now = self.walk.host.now()
            self.note(replace(entry, status=EntryStatus.COMPLETED, started_at=now, ended_at=now))

    # Time ------------------------------------------------------------------------------------

    @verb
    def sleep(self, name: str, duration: Duration) -> None:
        """Wait that many seconds, or a ``timedelta``, from the first encounter on. Zero or less: not at all."""
        what = f"the duration of sleep {name!r}"
        length = seconds(duration, what)
        self._sleep(name, lambda now: later(now, length, what))

    @verb
    def sleep_until(self, name: str, when: datetime) -> None:
        """Wait until an aware datetime; the one of the first encounter holds."""
        due_at = point_in_time(when, f"the time of sleep {name!r}")
        self._sleep(name, lambda now: due_at)

    # Recorded values -------------------------------------------------------------------------

    @verb
    def now(self, name: str) -> datetime:
        """The time, by the database's clock, of the first encounter."""
        value: datetime = self._value(name, self.walk.host.now)
        return value

    @verb
    def uuid(self, name: str) -> uuid.UUID:
        """A random UUID, the same on every replay."""
        value: uuid.UUID = self._value(name, uuid.uuid4)
        return value

    @verb
    def random(self, name: str) -> float:
        """A random number from 0 to 1, the same on every replay."""
        value: float = self._value(name, random.random)
        return value

    # What is around --------------------------------------------------------------------------

    @property
    def workflow_id(self) -> str:
        """The actor's instance id."""
        return self.walk.host.workflow_id

    @property
    def actor(self) -> Any:
        return self.walk.host.actor

    def is_evicted(self) -> bool:
        """Whether this worker wants to hand the actor over, or another branch has won the race that this is part of."""
        return self.walk.has_lost or self.walk.host.is_evicted()

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that is silent while recorded entries are replayed."""
        return logging.LoggerAdapter(
            _silent if self.walk.history.is_replaying else _logger, {"workflow_id": self.workflow_id}
        )

    # Below: how it is done -------------------------------------------------------------------

    def _turn(self, path: str, label: str, iteration: int, state: Any) -> Context:
        return Context(self.walk, Scope(path, self.scope), label, iteration, state)

    def _inner(self, path: str, label: str) -> Context:
        return Context(self.walk, Scope(path, self.scope), label)

    def _saga(self, name: str, fn: Callable[[Context], Any]) -> Result:
        path, entry = self.enter(name, Kind.BLOCK)
        outcome = blocks.recorded(entry)
        if outcome is not None:
            return outcome
        block = self._inner(path, f"block {name!r}")
        if entry.status is not EntryStatus.ROLLING_BACK:
            with self.inside(block.label):
                try:
                    value = fn(block)
                    self.walk.refuse_unwinding()
                    block.close_left_loop()
                    output = codec.encode(value)
                except WorkflowUsageError:
                    raise
                except Exception as error:
                    self.walk.refuse_unwinding()
                    entry = self._block_failed(entry, failure_of(error, "block", name))
                else:
                    block.finish()
                    entry = self._block_ended(entry, EntryStatus.COMPLETED, output)
                    return Result(True, codec.decode(output))
        block.ended = True
        failure = load_failure(entry.output or "{}")
        undo_all(self, [path], WorkflowFailedError(str(failure.error), failure.error))
        self._block_ended(entry, EntryStatus.FAILED, entry.output or "{}")
        self.walk.refuse_interruption()
        return Result(False, failure=failure)

    def _block_failed(self, entry: Entry, failure: Failure) -> Entry:
        return self.note(
            replace(
                entry,
                status=EntryStatus.ROLLING_BACK,
                output=dump_failure(failure),
                error=failure.error,
                started_at=self.walk.host.now(),
            )
        )

    def _block_ended(self, entry: Entry, status: EntryStatus, output: str) -> Entry:
        return self.note(replace(entry, status=status, output=output, ended_at=self.walk.host.now()))

    def _sleep(self, name: str, due_at: Callable[[datetime], datetime]) -> None:
        _, entry = self.enter(name, Kind.SLEEP)
        while True:
            match sleep.decide(entry, due_at, self.walk.host.now()):
                case Replay():
                    return
                case Note(record):
                    self.note(record)
                    return
                case Wait(until, record=record):
                    entry = self.note(record) if record is not None else entry
                    self.wait(until, None)

    def _value(self, name: str, make: Callable[[], Any]) -> Any:
        _, entry = self.enter(name, Kind.VALUE)
        if entry.seq == 0:
            now = self.walk.host.now()
            output = codec.encode(make())
            entry = self.note(replace(entry, status=EntryStatus.COMPLETED, output=output, started_at=now, ended_at=now))
        return codec.decode(entry.output or "null")


# Below: how it is done ---------------------------------------------------------------------------

_logger = logging.getLogger("django_rivet.workflow")
_silent = logging.getLogger("django_rivet.workflow.replay")
_silent.setLevel(logging.CRITICAL + 1)


def _check_catch(name: str, catch: Collection[str], known: Collection[str]) -> None:
    if isinstance(catch, str):
        raise InvalidStepError(f"{name!r}: catch must be a list of kinds, not the string {catch!r}")
    for kind in catch:
        if kind not in known:
            raise InvalidStepError(f"{name!r}: catch names {kind!r}; known are {', '.join(known)}")
