"""DIVERGE-03, the other side: what has not really happened binds nothing, and may be repaired or dropped."""

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db


def deploy(run):
    """The actor class in the version whose workflow is `run(ctx)`; the latest one is what drives."""

    class Order(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            return run(ctx)

    return Order


def deployed(old, new):
    """The status after old code waits, new code goes on, and its own waits are over; and the actor."""
    with isolated_actors():
        order = deploy(old).create("one")
        assert drive(order) == "sleeping", str(order.error)
    advance(100)
    order.send("letters", "hello")
    with isolated_actors():
        deploy(new)
        return drive(order), order


def fail(message="no"):
    raise OSError(message)


RETRY = {"retry_backoff_base": 30, "retry_backoff_max": 40}


@pytest.mark.parametrize("new_name", ["charge", None])
def test_diverge_03_an_atomic_step_that_never_completed_may_be_renamed_or_dropped(outside, new_name):
    """It left nothing behind, so it binds nothing."""

    def new(ctx):
        ctx.step("reserve", int)
        if new_name is not None:
            ctx.step(new_name, outside.append, "charged")
        return "done"

    status, order = deployed(lambda ctx: [ctx.step("reserve", int), ctx.step("pay", fail, **RETRY)], new)

    assert (status, order.output) == ("completed", "done")
    assert outside == (["charged"] if new_name else [])


def test_diverge_03_a_step_that_is_not_atomic_binds_from_its_first_attempt(outside):
    """It may have left an effect outside: new code cannot drop it."""

    def new(ctx):
        ctx.step("reserve", int)
        ctx.step("charge", outside.append, "charged")

    status, order = deployed(lambda ctx: [ctx.step("reserve", int), ctx.step("pay", fail, atomic=False, **RETRY)], new)

    assert status == "diverged"
    assert "'pay'" in order.error.message
    assert outside == []


def wait_in_a_loop(ctx):
    for turn in ctx.loop("orders"):
        turn.queue.next("order")


def wait_in_a_block(ctx):
    ctx.try_block("orders", lambda block: block.queue.next("order"))


def wait_in_a_saga(ctx):
    ctx.try_block("orders", lambda block: block.queue.next("order"), rollback=True)


def retry_in_a_loop(ctx):
    for turn in ctx.loop("orders"):
        for inner in turn.loop("inner"):
            inner.step("pay", fail, **RETRY)


EMPTY = [wait_in_a_loop, wait_in_a_block, wait_in_a_saga, retry_in_a_loop]


@pytest.mark.parametrize("old", EMPTY, ids=lambda function: function.__name__)
def test_diverge_03_a_construct_that_holds_nothing_binds_nothing(outside, old):
    """A loop or block that has not ended, and in which nothing has been recorded yet, may be renamed."""
    status, order = deployed(old, lambda ctx: ctx.step("instead", outside.append, "instead"))

    assert status == "completed", str(order.error)
    assert outside == ["instead"]


def ended_iteration(ctx):
    for turn in ctx.loop("orders"):
        if turn.iteration == 1:
            turn.queue.next("order")


def deadline_in_a_loop(ctx):
    for turn in ctx.loop("orders"):
        turn.queue.next("order", timeout=1000)


def step_in_a_saga(ctx):
    def body(block):
        block.step("pay", int)
        block.queue.next("order")

    ctx.try_block("orders", body, rollback=True)


def empty_block_that_ended(ctx):
    ctx.try_block("orders", lambda block: None, rollback=True)
    ctx.queue.next("order")


def empty_loop_that_ended(ctx):
    for _turn in ctx.loop("orders"):
        break
    ctx.queue.next("order")


HOLDING = [ended_iteration, deadline_in_a_loop, step_in_a_saga, empty_block_that_ended, empty_loop_that_ended]


@pytest.mark.parametrize("old", HOLDING, ids=lambda function: function.__name__)
def test_diverge_03_a_construct_that_ended_or_holds_something_binds(outside, old):
    """An iteration that ended, a deadline, a step, or its own end is something that happened."""
    status, order = deployed(old, lambda ctx: ctx.step("instead", outside.append, "instead"))

    assert status == "diverged"
    assert "'orders'" in order.error.message
    assert outside == []


def test_diverge_03_a_failed_workflow_can_be_repaired_in_front_of_the_failure(outside):
    """The step that failed never completed: after `recover()` new code may stand before it, and take its place."""

    def old(ctx):
        ctx.step("reserve", outside.append, "reserve")
        ctx.step("pay", critical)

    def critical():
        raise CriticalError("account unknown")

    def new(ctx):
        ctx.step("reserve", outside.append, "reserve")
        ctx.step("open account", outside.append, "open account")
        ctx.step("pay by card", outside.append, "pay by card")

    with isolated_actors():
        order = deploy(old).create("one")
        assert drive(order) == "failed"
    order.recover()
    with isolated_actors():
        deploy(new)

        assert drive(order) == "completed", str(order.error)

    assert outside == ["reserve", "open account", "pay by card"]
