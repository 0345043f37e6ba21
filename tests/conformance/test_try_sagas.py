"""TRY-10 with `rollback=True`: the block catches everything, undoes its steps, and is not entered again."""

from functools import partial

import pytest

from django_rivet import Actor, CriticalError, Queue, RollbackError, workflow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive

pytestmark = pytest.mark.django_db


def orders(outside, body, **options):
    """An actor that runs `body(self, block)` as a saga, reports the result, sleeps, and reports it again."""

    class Orders(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            result = ctx.try_block("order", lambda block: body(self, block), rollback=True, **options)
            outside.append(result)
            ctx.sleep("rest", 60)

        def do(self, thing):
            outside.append(f"do {thing}")
            return thing

        def undo(self, rollback, thing):
            outside.append(f"undo {thing}")

        def fail(self, error):
            raise error

    return Orders


def drive_to_the_end(actor):
    while drive(actor) == "sleeping":
        advance(61)
    return actor.status


def test_try_10_the_value_of_a_saga_is_recorded(outside):
    """A later pass takes it from there, and does not enter the block."""

    def body(self, block):
        block.rollback_checkpoint("order")
        block.step("pay", self.do, "pay", rollback=self.undo)
        outside.append("entered")
        return {"paid": True}

    order = orders(outside, body).create("one")

    assert drive_to_the_end(order) == "completed"
    *before, first, replayed = outside
    assert before == ["do pay", "entered"]
    assert (first.ok, first.value, first.failure) == (True, {"paid": True}, None)
    assert replayed == first
    assert order.history()["order"].kind == "block"


def raise_critical(self, block):
    block.step("confirm", self.fail, CriticalError("no"))


def raise_exhausted(self, block):
    block.step("confirm", self.fail, OSError("no"), max_retries=0)


def raise_rollback_in_a_step(self, block):
    block.step("confirm", self.fail, RollbackError("no"))


def raise_rollback(self, block):
    raise RollbackError("no")


def raise_plain(self, block):
    raise LookupError("no")


def time_out(self, block):
    block.queue.next("answer", timeout=0)


def return_what_cannot_be_stored(self, block):
    return {"a set": {1}}


@pytest.mark.parametrize("catch", [None, [], ["queue"]], ids=str)
@pytest.mark.parametrize(
    ("failing", "source", "name", "error"),
    [
        (raise_critical, "step", "confirm", "CriticalError"),
        (raise_exhausted, "step", "confirm", "OSError"),
        (raise_rollback_in_a_step, "step", "confirm", "RollbackError"),
        (raise_rollback, "block", "order", "RollbackError"),
        (raise_plain, "block", "order", "LookupError"),
        (time_out, "queue", "answer", "QueueTimeoutError"),
        (return_what_cannot_be_stored, "block", "order", "OutputNotSerializableError"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_try_10_a_saga_catches_everything_and_undoes_its_steps(outside, failing, source, name, error, catch):
    """Whatever `catch` says; the failure comes back after the rollback, and on replay without another."""

    def body(self, block):
        block.rollback_checkpoint("order")
        block.step("reserve", self.do, "reserve", rollback=self.undo)
        block.step("pay", self.do, "pay", rollback=self.undo)
        return failing(self, block)

    options = {} if catch is None else {"catch": catch}
    order = orders(outside, body, **options).create("one")

    assert drive_to_the_end(order) == "completed", str(order.error)
    *before, first, replayed = outside
    assert before == ["do reserve", "do pay", "undo pay", "undo reserve"]
    assert (first.ok, first.value, first.failure.source, first.failure.name) == (False, None, source, name)
    assert first.failure.error.name == error
    assert replayed == first
    assert order.history()["order"].status == "failed"


@pytest.mark.parametrize(
    ("misuse", "error", "status"),
    [
        (lambda self, block: block.step("pay", self.do, "again"), "HistoryDivergedError", "diverged"),
        (lambda self, block: block.sleep("rest", "soon"), "InvalidStepError", "failed"),
        (lambda self, block: self.state, "StepOnlyError", "failed"),
        (
            lambda self, block: block.step("other", lambda: block.step("inner", int)),
            "EntryInProgressError",
            "failed",
        ),
    ],
    ids=["divergence", "bad argument", "state outside a step", "entry in progress"],
)
def test_try_10_mistakes_in_the_code_pass_a_saga_and_undo_nothing(outside, misuse, error, status):
    """The block is no remedy against wrong code, and a bad deploy gives no money back."""

    def body(self, block):
        block.rollback_checkpoint("order")
        block.step("pay", self.do, "pay", rollback=self.undo)
        misuse(self, block)

    order = orders(outside, body).create("one")

    assert drive(order) == status
    assert order.error.name == error
    assert outside == ["do pay"]


def test_try_10_a_wait_in_a_saga_resumes_there(outside):
    """Until it has an outcome the block is entered on each pass, and its completed steps are replayed."""

    def body(self, block):
        outside.append("enter")
        block.step("pay", self.do, "pay")
        letter = block.queue.next("letter").body
        block.sleep("night", 60)
        return letter

    order = orders(outside, body).create("one")
    drive(order)
    order.send("letters", "go")

    assert drive_to_the_end(order) == "completed"
    *before, first, replayed = outside
    assert before == ["enter", "do pay", "enter", "enter"]
    assert first.value == replayed.value == "go"


def test_try_10_the_loop_around_a_failed_saga_lives_on(outside):
    """One bad order is undone, and the next ones are handled."""

    class Shop(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                order = turn.queue.next("letter").body
                result = turn.try_block("order", partial(self.take, order), rollback=True)
                outside.append(f"{order} {'taken' if result.ok else result.failure.error.message}")
                if order == "last":
                    return

        def take(self, order, saga):
            saga.rollback_checkpoint("order")
            saga.step("reserve", self.reserve, order, rollback=self.release)
            saga.step("pay", self.pay, order)

        def reserve(self, order):
            return order

        def release(self, rollback, order):
            outside.append(f"release {order}")

        def pay(self, order):
            if order == "bad":
                raise CriticalError("declined")

    shop = Shop.create("one")
    for order in ("good", "bad", "last"):
        shop.send("letters", order)

    assert drive(shop) == "completed"
    assert outside == ["good taken", "release bad", "bad declined", "last taken"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_try_10_a_saga_that_is_undone_goes_on_with_that_after_a_crash(after):
    """Each atomic handler takes effect once, newest first, wherever the worker dies."""

    class Order(Actor):
        class State:
            log: list[str] = []

        @workflow
        def run(self, ctx):
            result = ctx.try_block("order", self.order, rollback=True)
            ctx.step("after", self.note, f"ok: {result.ok}")

        def order(self, block):
            block.rollback_checkpoint("order")
            for name in ("reserve", "pay", "ship"):
                block.step(name, self.note, name, rollback=self.undo)
            raise LookupError("no stock")

        def note(self, what):
            self.state.log.append(what)
            return what

        def undo(self, rollback, what):
            self.state.log.append(f"undo {what}")

    crashes = 0
    for n in range(1, 15):
        order = Order.create(f"crash {n}")
        try:
            with crash_at(n, after):
                drive(order)
        except SimulatedCrash:
            crashes += 1
        assert drive(order) == "completed"
        assert order.state.log == ["reserve", "pay", "ship", "undo ship", "undo pay", "undo reserve", "ok: False"]
    assert crashes >= 9
