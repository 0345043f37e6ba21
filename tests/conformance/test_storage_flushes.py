"""STORAGE: when there is a commit, and what whoever looks sees after it."""

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.models import WorkflowRun
from django_rivet.store.transactions import observers

pytestmark = pytest.mark.django_db(transaction=True)


class DeclinedError(CriticalError):
    pass


def decline():
    raise DeclinedError("no")


def undo(rollback, output):
    """A handler that does nothing."""


def pruning_loop(ctx):
    for turn in ctx.loop("turns", history_prune_interval=1):
        turn.uuid("number")
        if turn.iteration == 4:
            break


def saga(ctx):
    ctx.rollback_checkpoint("saga")
    ctx.step("first", int, rollback=undo)
    ctx.step("second", int, rollback=undo)
    decline()


def block(scope):
    scope.rollback_checkpoint("block")
    scope.step("first", int, rollback=undo)
    scope.step("second", decline)


FLUSHES = {
    "nothing": (lambda ctx: None, 0),
    "a step": (lambda ctx: ctx.step("a", int), 1),
    "a step that is not atomic": (lambda ctx: ctx.step("a", int, atomic=False), 1),
    "an ephemeral step": (lambda ctx: ctx.step("a", int, ephemeral=True), 0),
    "a step at most once: its start too": (lambda ctx: ctx.step("a", int, at_most_once=True), 2),
    "a failed attempt": (lambda ctx: ctx.try_step("a", decline), 1),
    "a checkpoint": (lambda ctx: ctx.rollback_checkpoint("a"), 0),
    "a recorded value": (lambda ctx: ctx.now("a"), 0),
    "a sleep that is over": (lambda ctx: ctx.sleep("a", 0), 0),
    "receiving": (lambda ctx: ctx.queue.next("a"), 0),
    "a deferred entry before a body that is not atomic": (
        lambda ctx: (ctx.queue.next("a"), ctx.step("b", int, atomic=False)),
        2,
    ),
    "completing a message": (lambda ctx: ctx.queue.next("a", completable=True).complete(), 0),
    "completing a message before a body": (
        lambda ctx: (ctx.queue.next("a", completable=True).complete(), ctx.step("b", int)),
        2,
    ),
    "a loop with its turns, its end and what it forgets": (pruning_loop, 0),
    "a plain block": (lambda ctx: ctx.try_block("a", lambda b: None), 0),
    "a scoped block that ends well": (lambda ctx: ctx.try_block("a", lambda b: None, rollback=True), 0),
    "a scoped block: step, failure, handler": (lambda ctx: ctx.try_block("a", block, rollback=True), 3),
    "a rollback: two steps, its beginning, each handler": (saga, 5),
}


@pytest.mark.parametrize("what", FLUSHES)
def test_storage_09_there_are_no_more_flushes_than_these(rivet, what):
    """Beside the claim and the release. What need not be safe before something else happens rides along."""
    part, count = FLUSHES[what]

    class Flusher(Actor):
        messages = Queue(str)

        @workflow
        def run(self, ctx):
            part(ctx)

    flusher = Flusher.create("one")
    flusher.send("messages", "hello")

    with rivet.count_commits() as commits:
        rivet.drive(flusher)

    assert commits.count - 2 == count
    assert flusher.status in ("completed", "failed")


@pytest.mark.parametrize("wait", ["sleep", "queue", "queue with a deadline", "retry"])
def test_storage_09_every_end_of_a_pass_is_a_flush(rivet, wait):
    """What a wait is for, and everything noted before it, is on record when the worker has gone."""

    class Waiter(Actor):
        messages = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.uuid("noted")
            if wait == "sleep":
                ctx.sleep("wait", 60)
            elif wait == "retry":
                ctx.step("wait", self.fail)
            else:
                ctx.queue.next("wait", timeout=60 if wait.endswith("deadline") else None)

        def fail(self):
            raise OSError("later")

    waiter = Waiter.create("one")

    with rivet.count_commits() as commits:
        rivet.drive(waiter)

    assert commits.count == (3 if wait == "retry" else 2)
    recorded = {entry.path: entry.due_at for entry in waiter.history()}
    assert "noted" in recorded
    assert waiter.wake_at == recorded.get("wait")
    assert (waiter.wake_at is None) == (wait == "queue")


def test_storage_10_a_workflow_that_failed_and_then_completes_keeps_no_error(rivet, outside):
    """Differs on purpose from the reference, which keeps the old one."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge)

        def charge(self):
            outside.append("charge")
            if len(outside) == 1:
                raise CriticalError("declined")

    order = Order.create("one")
    assert rivet.drive(order) == "failed"
    assert str(order.error) == "CriticalError: declined"

    assert order.recover()
    assert order.error is None
    assert rivet.drive(order) == "completed"

    assert order.error is None
    assert WorkflowRun.objects.get(pk=order.id).error is None
    assert order.history()["charge"].error is None


def test_storage_12_after_each_flush_the_history_shows_what_it_wrote(rivet):
    """The reference calls a listener; here whoever looks, as the admin's page does, finds each flush whole."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.now("began")
            ctx.step("charge", lambda: "ch-1")
            ctx.step("ship", int)

    class Onlooker:
        def __init__(self):
            self.seen = []

        def before(self):
            pass

        def after(self):
            self.seen.append([(entry.path, entry.status, entry.output) for entry in order.history()][1:])

    order = Order.create("one")
    onlooker = Onlooker()
    observers.append(onlooker)
    try:
        rivet.drive(order)
    finally:
        observers.remove(onlooker)

    charge, ship = ("charge", "completed", "ch-1"), ("ship", "completed", 0)
    assert onlooker.seen == [[], [charge], [charge, ship], [charge, ship]]
