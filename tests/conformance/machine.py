"""A machine that runs random programs: with faults, with rollback, and through accidents."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from django_rivet import Actor, Break, Continue, CriticalError, Queue, current_step, workflow
from django_rivet.models import Message
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import SimulatedCrash, advance, crash_at, now
from tests.conformance.programs import Accident, Block


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
    is_mended: bool

    mail = Queue(int)

    @workflow
    def run(self, ctx):
        self.perform(ctx, "", self.program, may_undo=False)
        if self.program.raises and not self.is_mended:
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
        options: dict[str, Any] = {"max_retries": 2, "retry_backoff_base": 1, "retry_jitter": 0}
        if node.kind == "ephemeral":
            return context.step(name, lambda: path, ephemeral=True)
        if node.kind != "atomic":
            options["atomic"] = False
        if node.undoable and may_undo:
            undo = self.undo_at_last if node.undo_faults else self.undo
            options |= {"rollback": undo, "rollback_atomic": True}
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
        completable = bool(node.completes)
        if node.batch or node.timeout is not None:
            batch = context.queue.next_batch(name, count=node.batch, timeout=node.timeout, completable=completable)
        else:
            batch = [context.queue.next(name, completable=completable)]
        if node.completes == "in a step":
            context.step(f"{name} answered", self.answer, path, batch, retry_backoff_base=1)
        elif completable:
            self.complete(batch)
        self.report(context, name, *(message.body for message in batch))

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

    def fork(self, context, name, path, node, may_undo):
        def branch(number, inside):
            self.perform(
                inside, f"{path}/{number}", Block(node.branches[number], checkpoint=node.checkpoint), may_undo=may_undo
            )
            return number

        branches = {str(number): partial(branch, number) for number in range(len(node.branches))}
        if not node.race:
            return self.report(context, name, context.join(name, branches))
        return self.report(context, name, *context.race(name, branches, rollback_losers=node.rollback_losers))

    # What steps do

    def act(self, path, kind, faults, fatal):
        if fatal and not self.is_mended:
            raise CriticalError("fatal") if fatal == "critical" else OSError("fatal")
        self.faults[path] = self.faults.get(path, 0) + 1
        if self.faults[path] <= faults:
            raise OSError("fault")
        if kind == "atomic":
            self.note(path)
        else:
            self.world[current_step().idempotency_key] = path
        return path

    def answer(self, path, batch):
        self.complete(batch)
        self.faults[path] = self.faults.get(path, 0) + 1
        if self.faults[path] == 1:
            raise OSError("fault")

    def complete(self, batch):
        for message in batch:
            message.complete([message.body])

    def note(self, what):
        self.state.log.append(what)

    def undo(self, rollback, output):
        self.state.log.append(["undo", rollback.args[0], output])

    def undo_at_last(self, rollback, output):
        if rollback.attempt == 1:
            raise OSError("fault")
        self.undo(rollback, output)


# Driving them ------------------------------------------------------------------------------------

MOST_DRIVES = 3000
"""The largest program that was drawn so far was driven some 900 times."""

keys = count()


def machine(program: Block, sent: int) -> Any:
    class Random(Machine):
        world: dict[str, str] = {}
        faults: dict[str, int] = {}
        is_mended = False

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
    for drives in count(1):
        assert drives < MOST_DRIVES, f"it gets nowhere: {handle.snapshot()}\n{handle.history()}"
        if drive_once(uuid.UUID(handle.id), worker):
            continue
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
        "mail": list(
            Message.objects.filter(actor_id=handle.id).order_by("id").values_list("body", "status", "response")
        ),
        "history": [
            (entry.path, entry.kind, entry.status, entry.rollback and (entry.rollback.status, entry.rollback.outcome))
            for entry in handle.history()
        ],
    }


def double_effects(log: list[Any]) -> list[str]:
    """The steps that took effect again though nothing had undone them in between."""
    active: set[str] = set()
    doubled = []
    for what in log:
        if isinstance(what, str):
            doubled += [what] if what in active else []
            active.add(what)
        elif what[0] == "undo":
            active.discard(what[1])
    return doubled
