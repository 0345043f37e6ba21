"""The words that a workflow function calls."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar, overload

from django_rivet.engine import codec
from django_rivet.engine.compensation import AllUndone, RunHandler, Stopped, next_undo, register
from django_rivet.engine.decision import FailedAttempt, Note, Perform, Refuse, Replay, Wait
from django_rivet.engine.durations import Duration, later, point_in_time, seconds
from django_rivet.engine.entries import (
    Compensation,
    Entry,
    EntryStatus,
    Failure,
    FailureKind,
    Kind,
    Message,
    Result,
)
from django_rivet.engine.exceptions import (
    InvalidStepError,
    OutputNotSerializableError,
    RollbackCheckpointError,
    WorkflowFailedError,
    WorkflowUsageError,
)
from django_rivet.engine.failures import origin_of, queue_timeout, step_error
from django_rivet.engine.history import Changes
from django_rivet.engine.options import StepOptions, step_options
from django_rivet.engine.ports import StepCall
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.suspend import HandedOver, RollbackStopped
from django_rivet.engine.undo import Scope, owed_under
from django_rivet.engine.verbs import block as blocks
from django_rivet.engine.verbs import loop as loops
from django_rivet.engine.verbs import receive, sleep
from django_rivet.engine.verbs import step as steps
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
        value: T = self._step(name, fn, args, kwargs or {}, options)
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
            return Result(True, self._step(name, fn, args, kwargs or {}, options))
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
        now = self.walk.host.now()
        self._sleep(name, later(now, seconds(duration, what), what))

    @verb
    def sleep_until(self, name: str, when: datetime) -> None:
        """Wait until an aware datetime; the one of the first encounter holds."""
        self._sleep(name, point_in_time(when, f"the time of sleep {name!r}"))

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
        """Whether this worker wants to hand the actor over."""
        return self.walk.host.is_evicted()

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

    def _step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> Any:
        host = self.walk.host
        options = step_options(name, given, host.step_defaults)
        if not callable(fn):
            raise InvalidStepError(f"step {name!r}: {fn!r} cannot be called")
        compensation = self._compensation_of(name, args, kwargs, options)
        _, entry = self.enter(name, Kind.STEP)
        entry = replace(entry, atomic=options.atomic)
        while True:
            around = steps.Circumstances(
                host.now(),
                host.takeovers,
                host.max_takeovers,
                0 if self.walk.bodies_run else host.takeovers,
                host.workflow_id,
            )
            match steps.decide(entry, options, around):
                case Replay(value):
                    return value
                case Refuse(error, failed):
                    if failed is not None:
                        host.record_failure(self._numbered(failed))
                    raise error
                case Wait(until):
                    self.wait(until, None)
                case Perform(begun):
                    call = self._call(begun, options, fn, args, kwargs, compensation)
                    with self.inside(f"step {name!r}"):
                        self.walk.bodies_run += 1
                        original = host.run_step(call)
                    entry = self.walk.history.entries[begun.path]
                    if entry.status is EntryStatus.FAILED:
                        raise step_error(entry, original)

    def _numbered(self, failed: FailedAttempt) -> FailedAttempt:
        return replace(failed, entry=replace(failed.entry, seq=self.walk.history.next_seq()))

    def _compensation_of(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: StepOptions
    ) -> Callable[[Entry, str], tuple[Compensation, ...]]:
        """What a record of this step registers for rollback. Refused before the body has any effect."""
        if options.rollback is None:
            return lambda entry, outcome: ()
        owner = self.scope.owner()
        if owner is None:
            raise RollbackCheckpointError(
                f"step {name!r} has a rollback handler, but no ctx.rollback_checkpoint(...) stands before it "
                "in this scope or one around it"
            )
        reference = self.walk.host.handler_reference(options.rollback)
        try:
            arguments = codec.encode([list(args), dict(kwargs)])
        except OutputNotSerializableError as error:
            raise OutputNotSerializableError(
                f"the arguments of step {name!r} are kept for its rollback handler: {error}", error.path
            ) from None
        return lambda entry, outcome: (register(entry, owner, reference, arguments, options, outcome=outcome),)

    def _call(
        self,
        entry: Entry,
        options: StepOptions,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        compensation: Callable[[Entry, str], tuple[Compensation, ...]],
    ) -> StepCall:
        host, history = self.walk.host, self.walk.history

        def start() -> Changes:
            begun = replace(entry, status=EntryStatus.RUNNING, seq=history.next_seq())
            return Changes(
                (begun,), compensations=compensation(begun, "unknown") if options.rollback_when == "attempted" else ()
            )

        def succeeded(value: Any) -> Changes:
            self.walk.refuse_unwinding()
            done = steps.succeeded(entry, value, history.next_seq(), host.now(), host.max_output_bytes)
            return Changes((done,), compensations=compensation(done, "completed"))

        def failed(error: BaseException) -> FailedAttempt:
            self.walk.refuse_unwinding()
            return steps.failed(
                entry,
                error,
                options,
                seq=history.next_seq(),
                now=host.now(),
                chance=host.chance(),
                workflow_id=host.workflow_id,
            )

        return StepCall(entry, options, fn, args, kwargs, start, succeeded, failed)

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
                    block.close_left_loop()
                    output = codec.encode(value)
                except WorkflowUsageError:
                    raise
                except Exception as error:
                    self.walk.refuse_unwinding()
                    entry = self._block_failed(entry, blocks.failure_of(error, name))
                else:
                    block.finish()
                    entry = self._block_ended(entry, EntryStatus.COMPLETED, output)
                    return Result(True, codec.decode(output))
        block.ended = True
        failure = blocks.load_failure(entry.output or "{}")
        self._undo(path, WorkflowFailedError(str(failure.error), failure.error))
        self._block_ended(entry, EntryStatus.FAILED, entry.output or "{}")
        return Result(False, failure=failure)

    def _block_failed(self, entry: Entry, failure: Failure) -> Entry:
        return self.note(
            replace(
                entry,
                status=EntryStatus.ROLLING_BACK,
                output=blocks.dump_failure(failure),
                error=failure.error,
                started_at=self.walk.host.now(),
            )
        )

    def _block_ended(self, entry: Entry, status: EntryStatus, output: str) -> Entry:
        return self.note(replace(entry, status=status, output=output, ended_at=self.walk.host.now()))

    def _undo(self, path: str, cause: Exception) -> None:
        """Compensate the completed steps below ``path``, newest first."""
        while True:
            match next_undo(owed_under(self.walk.history, path), self.walk.host.now()):
                case RunHandler(compensation):
                    with self.inside(f"the rollback of {compensation.name!r}"):
                        self.walk.host.run_handler(compensation, cause)
                        self.walk.bodies_run += 1
                    # A cancellation does not stop a rollback; giving the actor away does not harm it.
                    interruption = self.walk.host.interruption()
                    if isinstance(interruption, HandedOver):
                        raise interruption
                case Wait(until):
                    self.wait(until, None, rolling_back=True)
                case Stopped():
                    raise RollbackStopped
                case AllUndone():
                    return

    def _sleep(self, name: str, due_at: datetime) -> None:
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


class Mailbox:
    """``ctx.queue``: the messages that were sent to this actor."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def next(self, name: str, names: Sequence[str] | None = None, timeout: Duration | None = None) -> Message:
        """The oldest message of the queues ``names`` (default: of any); waits for one.

        Raises ``QueueTimeoutError`` where none came within ``timeout`` seconds of the first encounter; 0 is one
        look. Taken and recorded in one commit: a crash neither loses nor repeats it.
        """
        return self._receive(name, names, 1, timeout, fails_on_timeout=True)[0]

    def next_batch(
        self, name: str, names: Sequence[str] | None = None, count: int = 1, timeout: Duration | None = None
    ) -> list[Message]:
        """Up to ``count`` messages as soon as there is one; empty where none came within ``timeout`` seconds."""
        if type(count) is not int:
            raise InvalidStepError(f"wait {name!r}: count must be a whole number, not {count!r}")
        return self._receive(name, names, max(1, count), timeout, fails_on_timeout=False)

    # Below: how it is done -------------------------------------------------------------------

    @property
    def walk(self) -> Walk:
        return self._context.walk

    def _receive(
        self,
        name: str,
        names: Sequence[str] | None,
        count: int,
        timeout: Duration | None,
        *,
        fails_on_timeout: bool,
    ) -> list[Message]:
        context = self._context
        with self.walk.guarded(context):
            if isinstance(names, str):
                raise InvalidStepError(f"wait {name!r}: names must be a list of queue names, not the string {names!r}")
            wanted = tuple(dict.fromkeys(names or ()))
            limit = None if timeout is None else seconds(timeout, f"the timeout of wait {name!r}")
            _, entry = context.enter(name, Kind.MESSAGE)
            host, history = self.walk.host, self.walk.history
            while True:
                decision = receive.recorded(entry, wanted)
                if decision is None:
                    found = host.peek(wanted, count, history.taken_ids)
                    decision = receive.decide(
                        entry, found, wanted, limit, fails_on_timeout=fails_on_timeout, now=host.now()
                    )
                    if isinstance(decision, Note):
                        history.note_taken(found)
                match decision:
                    case Replay(stored):
                        return [self._message(m) for m in stored]
                    case Note(record, stored):
                        context.note(record)
                        if record.status is EntryStatus.FAILED:
                            raise queue_timeout(record, wanted)
                        return [self._message(m) for m in stored]
                    case Refuse(error):
                        raise error
                    case Wait(until, queues, record):
                        entry = context.note(record) if record is not None else entry
                        context.wait(until, queues)

    def _message(self, stored: Mapping[str, Any]) -> Message:
        body = self.walk.host.load_body(stored["name"], stored["body"])
        return Message(stored["id"], stored["name"], body, stored["created_at"])


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
