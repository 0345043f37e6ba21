"""STEP: names, and the places they stand for."""

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.testing import isolated_actors

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("second", ["step", "try_step", "sleep", "try_block", "saga", "loop"])
def test_step_13_a_name_used_twice_in_one_scope_is_refused_at_the_second_call(rivet, outside, second):
    """HistoryDivergedError before the second body; the actor is ``diverged`` here, so a corrected deploy goes on."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("pay", outside.append, "first")
            match second:
                case "step":
                    ctx.step("pay", outside.append, "second")
                case "try_step":
                    ctx.try_step("pay", outside.append, "second")
                case "sleep":
                    ctx.sleep("pay", 0)
                case "try_block" | "saga":
                    ctx.try_block("pay", lambda block: outside.append("second"), rollback=second == "saga")
                case "loop":
                    ctx.loop("pay", lambda turn: outside.append("second"))

    order = Order.create("one")

    assert rivet.drive(order) == "diverged"

    assert outside == ["first"]
    assert order.error.name == "HistoryDivergedError"
    assert "'pay' was used before" in order.error.message

    with isolated_actors():

        class Order(Actor):  # the next deploy
            @workflow
            def run(self, ctx):
                ctx.step("pay", outside.append, "first")
                ctx.step("pay again", outside.append, "second")

        rivet.advance(1)
        assert rivet.drive(order) == "completed"

    assert outside == ["first", "second"]


def test_step_13_a_name_used_twice_is_refused_within_a_block_and_an_iteration(rivet, outside):
    """Each block and each iteration watches over its own names."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("lines"):
                turn.try_block("twice", self.twice if turn.iteration else self.once)

        def once(self, block):
            block.step("pay", outside.append, "once")

        def twice(self, block):
            block.step("pay", outside.append, "twice")
            block.step("pay", outside.append, "too often")

    order = Order.create("one")

    assert rivet.drive(order) == "diverged"

    assert outside == ["once", "twice"]


def test_step_13_the_same_name_in_two_scopes_is_two_steps(rivet, outside):
    """The workflow, a block and each iteration are scopes of their own: in each the name is another step."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("pay", outside.append, "workflow")
            ctx.try_block("plain", lambda block: block.step("pay", outside.append, "plain"))
            ctx.try_block("saga", lambda block: block.step("pay", outside.append, "saga"), rollback=True)
            for turn in ctx.loop("lines"):
                turn.step("pay", outside.append, f"turn {turn.iteration}")
                if turn.iteration == 1:
                    break
            ctx.sleep("a while", 60)

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert outside == ["workflow", "plain", "saga", "turn 0", "turn 1"]
    paths = [entry.path for entry in order.history() if entry.kind == "step"]
    assert paths == ["pay", "plain/pay", "saga/pay", "lines/0/pay", "lines/1/pay"]


@pytest.mark.parametrize(
    "name",
    ["", "n" * 201, "a/b", "/", "a\nb", "a\x00b", "a\x1fb", "a\x7fb", "a\x85b", "a\ud800b", 7, None, b"pay", ("pay",)],
    ids=repr,
)
def test_step_19_a_name_that_could_be_mistaken_is_refused(rivet, outside, name):
    """Differs on purpose from the reference, which checks no name: 1 to 200 characters, no ``/``, no control ones."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step(name, outside.append, "ran")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == []
    assert order.error.name == "InvalidStepError"
    assert "the name" in order.error.message


@pytest.mark.parametrize(
    "name", ["x", "n" * 200, "\U0001f6d2" * 200, " ", "q:0", "0", "-1", ".", "..", "a\\b", "a%sb'"]
)
def test_step_19_any_other_name_is_kept_as_it_is(rivet, outside, name):
    """Whatever else a name holds, it is found again on replay and reads back as it was given."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step(name, outside.append, "ran")
            ctx.sleep("a while", 60)

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert outside == ["ran"]
    assert order.history()[name].name == name


def test_step_19_no_two_names_share_a_record(rivet, outside):
    """Differs on purpose from the reference, where a step ``q:0`` meets the queue wait ``q``."""
    names = ["q:0", "q.0", "q", "Q", "q ", " q", "0", "00", "a", "A", "\u00e9", "e\u0301", "a:b", "lines:0"]

    class Order(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for name in names:
                ctx.step(name, outside.append, name)
            ctx.queue.next("wait", names=["orders"])
            for turn in ctx.loop("lines"):
                turn.step("0", outside.append, "turn")
                break
            ctx.try_block("block", lambda block: block.step("b", outside.append, "block"))
            for name in ["wait:0", "wait:orders", "block:b", "lines:0:0"]:
                ctx.step(name, outside.append, name)

    order = Order.create("one")
    order.send("orders", "order-1")

    assert rivet.drive(order) == "completed"

    assert outside == [*names, "turn", "block", "wait:0", "wait:orders", "block:b", "lines:0:0"]
