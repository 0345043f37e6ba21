"""Random workflows, killed and handed over at random places, end as if nothing had happened."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_rivet import Actor, Break, Continue, CriticalError, Queue, current_step, workflow
from django_rivet.models import Message
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.drive import in_process_worker
from django_rivet.testing import SimulatedCrash, advance, crash_at, isolated_actors, now

pytestmark = pytest.mark.django_db

# Programs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """Fails `faults` times before it succeeds, or for good where it is `fatal`."""

    kind: str = "atomic"
    faults: int = 0
    fatal: str = ""
    tried: bool = False
    undoable: bool = False


@dataclass(frozen=True)
class Sleep:
    seconds: float = 60


@dataclass(frozen=True)
class Receive:
    """One message, or a batch; with a timeout nothing is sent to it."""

    batch: int = 0
    timeout: float | None = None


@dataclass(frozen=True)
class Value:
    kind: str = "random"


@dataclass(frozen=True)
class Loop:
    body: tuple[Any, ...]
    iterations: int = 2
    leave: str = "break"
    interval: int = 20
    size: int | None = None
    checkpoint: bool = False


@dataclass(frozen=True)
class Block:
    body: tuple[Any, ...]
    saga: bool = False
    raises: bool = False
    checkpoint: bool = False


def bodies(nodes: st.SearchStrategy[Any], least: int = 1) -> st.SearchStrategy[Any]:
    return st.lists(nodes, min_size=least, max_size=4).map(tuple)


def constructs(nodes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inside = bodies(nodes) | st.just(())
    loops = st.builds(
        Loop,
        inside,
        iterations=st.integers(1, 4),
        leave=st.sampled_from(["break", "exception", "function"]),
        interval=st.integers(1, 3),
        size=st.none() | st.integers(1, 3),
        checkpoint=st.booleans(),
    )
    return loops | st.builds(Block, inside, saga=st.booleans(), raises=st.booleans(), checkpoint=st.booleans())


def programs_of(steps: st.SearchStrategy[Step], **root: Any) -> st.SearchStrategy[Block]:
    leaves = st.one_of(
        steps,
        steps,
        st.builds(Sleep, st.sampled_from([0, 0.01, 60])),
        st.builds(Receive, batch=st.integers(0, 3), timeout=st.sampled_from([None, 0, 30])),
        st.builds(Value, st.sampled_from(["random", "uuid", "now"])),
    )
    return st.builds(Block, bodies(leaves | st.recursive(constructs(leaves), constructs, max_leaves=6), 2), **root)


kinds = st.sampled_from(["atomic", "atomic", "outside", "attempted", "ephemeral"])
any_steps = st.builds(
    Step,
    kind=kinds,
    faults=st.integers(0, 2),
    fatal=st.sampled_from(["", "", "", "", "critical", "exhausted"]),
    tried=st.booleans(),
    undoable=st.booleans(),
)
undoable_steps = st.builds(Step, kind=kinds, undoable=st.just(True))
programs = programs_of(any_steps, checkpoint=st.booleans(), raises=st.booleans()) | programs_of(
    undoable_steps, checkpoint=st.just(True), raises=st.just(True)
)

# Their interpreter -------------------------------------------------------------------------------


class LeftError(Exception):
    """Leaves a loop."""


class Machine(Actor):
    """Runs the program of its class; what steps do is in its state, or in `world` by idempotency key."""

    class Meta:
        abstract = True

    class State:
        log: list[Any] = []

    program: Block
    world: dict[str, str]
    faults: dict[str, int]

    mail = Queue(int)

    @workflow
    def run(self, ctx):
        self.perform(ctx, "", self.program, may_undo=False)
        if self.program.raises:
            raise LookupError("at the end")
        return "done"

    def perform(self, context, path, scope, *, may_undo):
        if scope.checkpoint:
            context.rollback_checkpoint("checkpoint")
            may_undo = True
        for index, node in enumerate(scope.body):
            name = f"{index} {type(node).__name__.lower()}"
            getattr(self, type(node).__name__.lower())(context, name, f"{path}/{name}", node, may_undo)

    def report(self, context, name, *what):
        context.step(f"{name} reported", self.note, [name, *what])

    def step(self, context, name, path, node, may_undo):
        options: dict[str, Any] = {"max_retries": 2, "retry_backoff_base": 1}
        if node.kind == "ephemeral":
            return context.step(name, lambda: path, ephemeral=True)
        if node.kind != "atomic":
            options["atomic"] = False
        if node.undoable and may_undo:
            options |= {"rollback": self.undo, "rollback_atomic": True}
            options["rollback_when"] = "attempted" if node.kind == "attempted" else "completed"
        if not node.tried:
            return context.step(name, self.act, path, node.kind, node.faults, node.fatal, **options)
        result = context.try_step(name, self.act, path, node.kind, node.faults, node.fatal, **options)
        if result.ok:
            return self.report(context, name, result.value)
        return self.report(context, name, result.failure.kind, result.failure.attempts, str(result.failure.error))

    def sleep(self, context, name, path, node, may_undo):
        context.sleep(name, node.seconds)

    def receive(self, context, name, path, node, may_undo):
        if node.batch or node.timeout is not None:
            batch = context.queue.next_batch(name, count=node.batch, timeout=node.timeout)
            self.report(context, name, *(message.body for message in batch))
        else:
            self.report(context, name, context.queue.next(name).body)

    def value(self, context, name, path, node, may_undo):
        value = getattr(context, node.kind)(name)
        assert context.step(f"{name} kept", lambda: value) == value, "a recorded value changed"

    def loop(self, context, name, path, node, may_undo):
        options = {"state": 0, "history_prune_interval": node.interval, "history_size": node.size}

        def once(turn, state):
            assert state == turn.iteration, "the loop's state is not that of its iteration"
            self.perform(turn, f"{path}/{turn.iteration}", node, may_undo=may_undo)
            return Break(state) if turn.iteration == node.iterations - 1 else Continue(state + 1)

        if node.leave == "function":
            return self.report(context, name, context.loop(name, once, **options))
        try:
            for turn in context.loop(name, **options):
                turn.state += 1
                if isinstance(once(turn, turn.state - 1), Break):
                    if node.leave == "exception":
                        raise LeftError
                    break
        except LeftError:
            pass
        return self.report(context, name, turn.iteration)

    def block(self, context, name, path, node, may_undo):
        def body(block):
            self.perform(block, path, node, may_undo=may_undo)
            if node.raises and node.saga:
                raise LookupError(path)
            return len(node.body)

        result = context.try_block(name, body, rollback=node.saga)
        failure = result.failure
        self.report(context, name, result.value, failure and [failure.source, failure.name, str(failure.error)])

    # What steps do

    def act(self, path, kind, faults, fatal):
        if fatal:
            raise CriticalError("fatal") if fatal == "critical" else OSError("fatal")
        self.faults[path] = self.faults.get(path, 0) + 1
        if self.faults[path] <= faults:
            raise OSError("fault")
        if kind == "atomic":
            self.note(path)
        else:
            self.world[current_step().idempotency_key] = path
        return path

    def note(self, what):
        self.state.log.append(what)

    def undo(self, rollback, output):
        self.state.log.append(["undo", rollback.args[0], output])


# Driving them ------------------------------------------------------------------------------------

keys = count()


@dataclass(frozen=True)
class Accident:
    """A death before or after the n-th commit, or an eviction that is noticed when it is asked for the n-th time."""

    kind: str
    n: int


accidents = st.lists(
    st.builds(Accident, st.sampled_from(["before", "after", "evict"]), st.integers(1, 9)), min_size=1, max_size=4
)


def machine(program: Block, sent: int) -> Any:
    class Random(Machine):
        world: dict[str, str] = {}
        faults: dict[str, int] = {}

    Random.program = program
    handle = Random.create(f"machine {next(keys)}")
    numbers = count()
    for _ in range(sent):
        handle.send("mail", next(numbers))
    return handle, Random, numbers


def drive_to_the_end(handle: Any, numbers: Iterator[int], evict_at: int = 0) -> None:
    """Sends to waits without a deadline, and moves the clock for the others."""
    asked = count(1)
    worker = replace(in_process_worker("random"), evicted=lambda: next(asked) == evict_at)
    while True:
        while drive_once(uuid.UUID(handle.id), worker):
            pass
        seen = handle.snapshot()
        if seen.wake_at is not None and seen.status in ("sleeping", "rolling_back"):
            advance((seen.wake_at - now()).total_seconds() + 0.001)
        elif seen.waiting_for is not None:
            handle.send("mail", next(numbers))
        else:
            return


def suffer(handle: Any, numbers: Iterator[int], accident: Accident) -> None:
    if accident.kind == "evict":
        return drive_to_the_end(handle, numbers, evict_at=accident.n)
    try:
        with crash_at(accident.n, after=accident.kind == "after"):
            drive_to_the_end(handle, numbers)
    except SimulatedCrash:
        pass


def outcome(handle: Any, cls: type[Machine]) -> dict[str, Any]:
    """All that users and operators can see, apart from times."""
    seen = handle.snapshot()
    return {
        "status": seen.status,
        "output": seen.output,
        "error": seen.error and str(seen.error),
        "log": seen.state.log,
        "world": sorted(cls.world.values()),
        "left": list(Message.objects.filter(actor_id=handle.id, status="queued").values_list("body", flat=True)),
        "history": [
            (entry.path, entry.kind, entry.status, entry.rollback and (entry.rollback.status, entry.rollback.outcome))
            for entry in handle.history()
        ],
    }


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs, sent=st.integers(0, 4), accidents=accidents)
@example(program=Block((Step(),)), sent=0, accidents=[Accident("before", 2)])
def test_a_random_program_ends_as_if_nothing_had_happened(program, sent, accidents):
    """Steps, waits, loops, blocks and rollbacks: the same end, and each completed step took effect once."""
    with isolated_actors():
        undisturbed, Undisturbed, numbers = machine(program, sent)
        drive_to_the_end(undisturbed, numbers)
        expected = outcome(undisturbed, Undisturbed)
    assert expected["status"] in ("completed", "failed"), expected["error"]
    done = [what for what in expected["log"] if isinstance(what, str)]
    assert len(done) == len(set(done))

    with isolated_actors():
        disturbed, Disturbed, numbers = machine(program, sent)
        for accident in accidents:
            suffer(disturbed, numbers, accident)
        drive_to_the_end(disturbed, numbers)

        assert outcome(disturbed, Disturbed) == expected
