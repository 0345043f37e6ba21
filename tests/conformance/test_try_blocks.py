"""TRY-07, 10 to 18: `try_block` without rollback is a scope whose failures come back as data."""

from typing import Any

import pytest

from django_rivet import Actor, CriticalError, Queue, RollbackError, workflow
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db

EVERYTHING = ["step", "join", "race", "queue", "rollback"]


def trying(run):
    """An actor whose workflow is `run(ctx)`."""

    class Trying(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            return run(ctx)

    return Trying.create("one")


def fail(error):
    raise error


@pytest.mark.parametrize(
    "wait",
    [
        lambda block: block.sleep("rest", 60),
        lambda block: block.queue.next("letter"),
        lambda block: block.step("flaky", fail, OSError("busy"), retry_backoff_base=60, retry_backoff_max=600),
        lambda block: block.try_step("flaky", fail, OSError("busy"), retry_backoff_base=60, retry_backoff_max=600),
    ],
    ids=["sleep", "message", "retry", "tried retry"],
)
def test_try_07_waits_are_never_caught(outside, wait):
    """A block in which the workflow waits has not failed; the actor sleeps."""

    def run(ctx):
        outside.append(ctx.try_block("block", wait, catch=EVERYTHING))

    actor = trying(run)

    assert drive(actor) == "sleeping"
    assert outside == []


def undo(rollback, output):
    """Fails whenever it is asked."""
    raise CriticalError("cannot be undone")


def stopped(block):
    def order(inner):
        inner.rollback_checkpoint("order")
        inner.step("pay", lambda: None, rollback=undo)
        raise LookupError

    block.try_block("inner", order, rollback=True)


@pytest.mark.parametrize(
    ("misuse", "error", "status"),
    [
        (lambda block: [block.step("same", int), block.step("same", int)], "HistoryDivergedError", "diverged"),
        (lambda block: block.step("outer", lambda: block.step("inner", int)), "EntryInProgressError", "failed"),
        (lambda block: block.step("pay", int, rollback=undo), "RollbackCheckpointError", "failed"),
        (lambda block: block.sleep("rest", "soon"), "InvalidStepError", "failed"),
        (stopped, "CriticalError", "rollback_failed"),
    ],
    ids=["divergence", "entry in progress", "missing checkpoint", "bad argument", "stopped rollback"],
)
def test_try_07_mistakes_and_a_stopped_rollback_are_never_caught(outside, misuse, error, status):
    """They pass every block, whatever it catches."""

    def run(ctx):
        outside.append(ctx.try_block("block", misuse, catch=EVERYTHING))

    actor = trying(run)

    assert drive(actor) == status
    assert actor.error.name == error
    assert outside == []


def test_try_10_a_block_gives_its_value_back_and_leaves_no_entry_of_its_own(outside):
    """It is a scope: its names are its own, and it is entered on each pass."""

    def body(block):
        outside.append("enter")
        return [block.step("pay", lambda: "paid in the block"), block.workflow_id]

    def run(ctx):
        paid = ctx.step("pay", lambda: "paid outside")
        result = ctx.try_block("block", body)
        ctx.sleep("rest", 60)
        return [paid, result.ok, result.value, result.failure]

    actor = trying(run)
    drive(actor)
    advance(61)

    assert drive(actor) == "completed"
    assert actor.output == ["paid outside", True, ["paid in the block", actor.id], None]
    assert outside == ["enter", "enter"]
    assert [entry.path for entry in actor.history()] == ["pay", "block/pay", "rest"]


def test_try_11_a_failed_step_is_named_with_its_failure(outside):
    """The source is the step, and the step's own failure comes along; replay tells the same."""

    def body(block):
        block.step("reserve", outside.append, "reserved")
        block.step("pay", fail, OSError("no answer"), max_retries=1)
        block.step("ship", outside.append, "shipped")

    seen = []

    def run(ctx):
        seen.append(ctx.try_block("order", body))
        ctx.sleep("rest", 60)

    actor = trying(run)
    while drive(actor) == "sleeping":
        advance(61)

    result = seen[-1]
    assert (actor.status, outside) == ("completed", ["reserved"])
    assert (result.ok, result.failure.source, result.failure.name) == (False, "step", "pay")
    assert str(result.failure.error) == "OSError: no answer"
    step = result.failure.step
    assert (step.kind, step.step_name, step.attempts, str(step.error)) == (
        "exhausted",
        "pay",
        2,
        "OSError: no answer",
    )
    assert seen == [result, result]


def test_try_11_a_step_in_a_loop_or_a_block_of_the_block_is_named_by_itself():
    """What is around the step inside the block makes no difference."""

    def body(block):
        for turn in block.loop("orders"):
            turn.try_block("inner", lambda inner: inner.step("pay", fail, CriticalError("no")), catch=["queue"])

    def run(ctx):
        failure = ctx.try_block("block", body).failure
        return [failure.source, failure.name, failure.step.kind]

    actor = trying(run)

    assert drive(actor) == "completed"
    assert actor.output == ["step", "pay", "critical"]


def test_try_11_a_step_is_not_caught_where_steps_are_not_listed():
    """`catch` replaces the default sources."""
    actor = trying(
        lambda ctx: ctx.try_block("block", lambda block: block.step("pay", fail, CriticalError("no")), catch=["queue"])
    )

    assert drive(actor) == "failed"
    assert (actor.error.name, actor.error.message) == ("CriticalError", "no")


def test_try_14_a_rollback_error_raised_in_the_block_passes_by_default():
    """It asks for the workflow to be undone, and a plain block does not stand in its way."""
    actor = trying(lambda ctx: ctx.try_block("block", lambda block: fail(RollbackError("undo all"))))

    assert drive(actor) == "failed"
    assert actor.error.name == "RollbackError"


def test_try_14_a_rollback_error_raised_in_the_block_is_caught_where_it_is_named():
    """The source is the block then, and so is the name."""

    def run(ctx):
        result = ctx.try_block("order", lambda block: fail(RollbackError("undo all")), catch=["rollback"])
        failure = result.failure
        return [result.ok, failure.source, failure.name, str(failure.error), failure.step]

    actor = trying(run)

    assert drive(actor) == "completed"
    assert actor.output == [False, "block", "order", "RollbackError: undo all", None]


@pytest.mark.parametrize("catch", [["step"], EVERYTHING])
def test_try_15_a_rollback_error_of_a_step_needs_to_be_named(catch):
    """Catching steps is not enough; with "rollback" the source is the step, whose kind is rollback."""

    def run(ctx):
        result = ctx.try_block("order", lambda block: block.step("pay", fail, RollbackError("undo all")), catch=catch)
        return [result.failure.source, result.failure.name, result.failure.step.kind]

    actor = trying(run)

    if "rollback" in catch:
        assert drive(actor) == "completed"
        assert actor.output == ["step", "pay", "rollback"]
    else:
        assert drive(actor) == "failed"
        assert actor.error.name == "RollbackError"


@pytest.mark.parametrize("error", [ValueError("wrong"), CriticalError("wrong"), KeyError("wrong")], ids=repr)
def test_try_16_other_errors_raised_in_the_block_pass(error):
    """What did not come out of an entry is the workflow's own, whatever its class."""
    actor = trying(lambda ctx: ctx.try_block("block", lambda block: fail(error), catch=EVERYTHING))

    assert drive(actor) == "failed"
    assert (actor.error.name, actor.error.message) == (type(error).__name__, str(error))


def test_try_17_a_block_that_does_not_reach_what_it_has_recorded_diverges(outside):
    """The divergence passes the block, and nothing that comes after it is done."""

    def deploy(steps):
        def body(block):
            for name in steps:
                block.step(name, outside.append, name)

        class Order(Actor):
            @workflow
            def run(self, ctx):
                ctx.try_block("order", body, catch=EVERYTHING)
                ctx.sleep("rest", 60)
                ctx.step("after", outside.append, "after")

        return Order

    with isolated_actors():
        order = deploy(["reserve", "pay"]).create("one")
        assert drive(order) == "sleeping"
    advance(61)
    with isolated_actors():
        deploy(["reserve"])

        assert drive(order) == "diverged"

    assert "'pay'" in order.error.message
    assert "block 'order' ended" in order.error.message
    assert outside == ["reserve", "pay"]


@pytest.mark.parametrize("atomic", [True, False])
def test_try_18_failed_attempts_leave_nothing_and_completed_steps_stay(atomic):
    """What a failed attempt did to the state is gone; what completed steps of a failed block did is not.

    Differs on purpose from the reference, where the changes of failed attempts stay.
    """

    class Order(Actor):
        class State:
            log: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.try_step("try", self.note_and_fail, "tried", max_retries=2)
            ctx.try_block("order", self.order)

        def order(self, block):
            block.step("reserve", self.note, "reserved")
            block.step("pay", self.note_and_fail, "paid", max_retries=1)

        def note(self, what):
            self.state.log.append(what)

        def note_and_fail(self, what):
            self.note(what)
            raise OSError("no answer")

    order = Order.create("one")
    while drive(order) == "sleeping":
        advance(60)

    assert order.status == "completed"
    assert order.state.log == ["reserved"]


def test_the_context_around_a_block_is_busy_and_the_blocks_own_ends_with_it(outside):
    """Inside a block only its context makes entries, and afterwards, well or not, it makes none."""
    kept: list[Any] = []

    def misuse(ctx, body, late):
        result = ctx.try_block("block", body)
        if late:
            kept.pop().step("late", outside.append, result.ok)

    def failing(block):
        kept.append(block)
        block.step("pay", fail, CriticalError("no"))

    for key, body, late in (("around", None, False), ("well", kept.append, True), ("failed", failing, True)):

        class Order(Actor):
            @workflow
            def run(self, ctx, body=body, late=late):
                misuse(ctx, body or (lambda block: ctx.step("outside", outside.append, "outside")), late)

        order = Order.create(key)
        assert drive(order) == "failed"
        assert order.error.name == "EntryInProgressError", key
    assert outside == []
