"""STEP: one entry of a context at a time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from django_rivet import Actor, EntryInProgressError, workflow

pytestmark = pytest.mark.django_db


def test_step_14_a_second_entry_while_a_body_runs_is_refused_and_the_body_goes_on(rivet, outside):
    """Another thread uses the context while a body runs: the thread is refused, the body not cut short."""
    refusals = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("first", self.first, ctx)

        def first(self, ctx):
            with ThreadPoolExecutor(1) as pool:
                refusals.append(pool.submit(ctx.step, "second", outside.append, "second").exception())
            outside.append("first went on")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == ["first went on"]
    assert [type(refusal) for refusal in refusals] == [EntryInProgressError]
    assert order.error.name == "EntryInProgressError"


def test_step_15_two_threads_cannot_gather_steps_on_one_context(rivet, outside):
    """A thread pool over one context is refused before any body: that takes a join or a race."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(lambda name: ctx.step(name, outside.append, name), ["left", "right"]))

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == []
    assert order.error.name == "EntryInProgressError"


@pytest.mark.parametrize("construct", ["try_block", "saga", "loop", "loop with a function"])
@pytest.mark.parametrize("call", ["step", "try_step", "sleep", "try_block", "loop", "queue", "now"])
def test_step_16_the_context_around_cannot_be_used_inside_a_construct(rivet, outside, construct, call):
    """In a block or an iteration its own context is the one to use; that of the scope around is busy with it."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            match construct:
                case "try_block" | "saga":
                    ctx.try_block("inner", lambda block: self.use(ctx), rollback=construct == "saga")
                case "loop":
                    for _turn in ctx.loop("inner"):
                        self.use(ctx)
                case "loop with a function":
                    ctx.loop("inner", lambda turn: self.use(ctx))

        def use(self, around):
            match call:
                case "step":
                    around.step("pay", outside.append, "ran")
                case "try_step":
                    around.try_step("pay", outside.append, "ran")
                case "sleep":
                    around.sleep("pay", 0)
                case "try_block":
                    around.try_block("pay", lambda block: outside.append("ran"))
                case "loop":
                    around.loop("pay", lambda turn: outside.append("ran"))
                case "queue":
                    around.queue.next("pay")
                case "now":
                    around.now("pay")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == []
    assert order.error.name == "EntryInProgressError"


@pytest.mark.parametrize("scope", ["block", "iteration"])
def test_step_16_the_context_of_a_scope_that_has_ended_cannot_be_used(rivet, outside, scope):
    """A context kept beyond its block or iteration records nothing any more."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            kept = []
            if scope == "block":
                ctx.try_block("inner", kept.append)
            else:
                for turn in ctx.loop("inner"):
                    kept.append(turn)
                    break
            kept[0].step("pay", outside.append, "ran")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == []
    assert order.error.name == "EntryInProgressError"


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("swallowed", [True, False])
def test_step_17_a_verb_inside_a_body_fails_the_workflow_without_a_retry(rivet, outside, atomic, swallowed):
    """Differs on purpose from the reference, which tries such a body four times; swallowing the error hides nothing."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_step("first", self.first, ctx, atomic=atomic)
            ctx.step("later", outside.append, "later")

        @run.on_error
        def note(self, event):
            outside.append(event.kind)

        def first(self, ctx):
            outside.append("first")
            try:
                ctx.step("inner", outside.append, "inner")
            except EntryInProgressError:
                if not swallowed:
                    raise

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == ["first", "workflow"]
    assert order.error.name == "EntryInProgressError"
    assert "'first'" in order.error.message
    assert len(order.history()) == 0


def test_step_17_a_usage_error_that_the_workflow_swallows_comes_back(rivet, outside):
    """``except Exception`` around the misuse does not make it good: the next call raises it again."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.try_block("inner", lambda block: ctx.step("pay", outside.append, "ran"))
            except Exception:
                outside.append("swallowed")
            ctx.step("later", outside.append, "later")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == ["swallowed"]
    assert order.error.name == "EntryInProgressError"


def test_step_18_a_step_left_to_a_thread_does_not_let_the_workflow_complete(rivet, outside):
    """Differs on purpose from the reference, which completes: a step that nobody waits for fails the workflow."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(ctx.step, "forgotten", outside.append, "ran")
            return "done"

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == []
    assert order.error.name == "EntryInProgressError"
    assert order.output is None
