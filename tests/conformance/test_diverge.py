"""DIVERGE-01 and 04: changed code that no longer fits the history does nothing new, and undoes nothing."""

from math import ceil

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Entry
from django_rivet.testing import advance, drive, isolated_actors, now

pytestmark = pytest.mark.django_db

REST = 60


def deploy(run):
    """The actor class in the version whose workflow is `run(ctx)`; the latest one is what drives."""

    class Order(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            return run(ctx)

    return Order


def started(run):
    """An actor that old code, `run(ctx)` and then a sleep, has brought up to that sleep."""

    def old(ctx):
        run(ctx)
        ctx.sleep("rest", REST)

    with isolated_actors():
        order = deploy(old).create("one")
        order.send("letters", "hello")
        assert drive(order) == "sleeping", str(order.error)
    return order


def redeployed(order, run):
    """The status after a drive by new code, when the sleep is over."""
    advance(REST + 1)
    with isolated_actors():
        deploy(run)
        return drive(order)


def rows(order):
    return list(Entry.objects.filter(actor_id=order.id).order_by("path").values("path", "kind", "status", "output"))


def one_turn(context, name):
    for turn in context.loop(name):
        turn.step("inner", int)
        break


KINDS = {
    "step": lambda ctx: ctx.step("it", int),
    "sleep": lambda ctx: ctx.sleep("it", 0),
    "message": lambda ctx: ctx.queue.next("it"),
    "loop": lambda ctx: one_turn(ctx, "it"),
    "checkpoint": lambda ctx: ctx.rollback_checkpoint("it"),
    "value": lambda ctx: ctx.uuid("it"),
}
BLOCKS = {
    "block": lambda ctx: ctx.try_block("it", lambda block: block.step("inner", int)),
    "saga": lambda ctx: ctx.try_block("it", lambda block: block.step("inner", int), rollback=True),
}
PAIRS = [
    (old, new) for old in [*KINDS, *BLOCKS] for new in [*KINDS, *BLOCKS] if old != new and not {old, new} <= {*BLOCKS}
]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=[f"{old} to {new}" for old, new in PAIRS])
def test_diverge_01_another_kind_at_a_recorded_path(outside, old, new):
    """Code that asks for something else under a recorded name diverges before it does anything."""
    everything = KINDS | BLOCKS
    order = started(everything[old])
    before = rows(order)

    def changed(ctx):
        everything[new](ctx)
        outside.append("went on")
        ctx.sleep("rest", REST)

    assert redeployed(order, changed) == "diverged"

    assert order.error.name == "HistoryDivergedError"
    assert "'it' is recorded as a" in order.error.message
    assert outside == []
    assert rows(order) == before


def test_diverge_04_a_divergence_undoes_nothing_and_the_old_code_goes_on(outside):
    """A bad deploy gives no money back; when it is taken back the workflow goes on as if nothing had been.

    Differs on purpose from the reference, where divergence rolls back.
    """

    def version(*names):
        class Order(Actor):
            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("order")
                for name in names:
                    ctx.step(name, outside.append, name, rollback=self.undo)
                ctx.sleep("rest", REST)
                ctx.step("ship", outside.append, "ship")

            def undo(self, rollback, output):
                outside.append("undone")

        return Order

    with isolated_actors():
        order = version("pay").create("one")
        drive(order)
    before = rows(order)
    advance(REST + 1)
    with isolated_actors():
        version("charge")
        assert drive(order) == "diverged"
        for _ in range(3):
            advance(3600)
            assert drive(order) == "diverged"
    assert rows(order) == before
    assert order.history()["pay"].rollback.status == "owed"

    advance(3600)
    with isolated_actors():
        version("pay")
        assert drive(order) == "completed"

    assert outside == ["pay", "ship"]
    assert order.error is None


def test_diverge_04_a_diverged_actor_is_tried_again_with_growing_pauses():
    """It costs little while it waits for a deploy, and needs nobody to wake it after that."""
    order = started(lambda ctx: ctx.step("a", int))
    pauses = []

    with isolated_actors():
        deploy(lambda ctx: None)
        advance(REST + 1)
        for _ in range(5):
            assert drive(order) == "diverged"
            pauses.append(ceil((order.wake_at - now()).total_seconds()))
            advance(pauses[-1] + 1)

    assert pauses == sorted(pauses)
    assert len(set(pauses)) == 5
