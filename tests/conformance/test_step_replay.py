"""STEP: what a replay does with steps that are on record, also after a deploy."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_rivet import Actor, workflow
from django_rivet.testing import SimulatedCrash, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("recorded", ["sleep", "now", "rollback_checkpoint", "loop", "try_block", "saga"])
def test_step_11_a_step_where_something_else_is_recorded_diverges_before_its_body(rivet, outside, recorded):
    """A record of another kind at the step's place: HistoryDivergedError, and the body does not run."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            match recorded:
                case "sleep":
                    ctx.sleep("pay", 0)
                case "now":
                    ctx.now("pay")
                case "rollback_checkpoint":
                    ctx.rollback_checkpoint("pay")
                case "loop":
                    for turn in ctx.loop("pay"):
                        turn.step("inner", lambda: 1)
                        break
                case "try_block" | "saga":
                    ctx.try_block("pay", lambda b: b.step("inner", lambda: 1), rollback=recorded == "saga")
            ctx.sleep("a while", 60)

    order = Order.create("one")
    assert rivet.drive(order) == "sleeping"
    rivet.advance(60)

    with isolated_actors():

        class Order(Actor):  # the next deploy
            @workflow
            def run(self, ctx):
                ctx.step("pay", outside.append, "ran")
                ctx.sleep("a while", 60)

        assert rivet.drive(order) == "diverged"

    assert outside == []
    assert order.error.name == "HistoryDivergedError"
    assert "'pay' is recorded as a" in order.error.message


@pytest.mark.parametrize("now_a", ["sleep", "loop", "try_block"])
def test_step_11_something_else_where_a_step_is_recorded_diverges_as_well(rivet, outside, now_a):
    """The same from the other side: what stands where a step is recorded is not begun."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("pay", lambda: "paid")
            ctx.sleep("a while", 60)

    order = Order.create("one")
    assert rivet.drive(order) == "sleeping"
    rivet.advance(60)

    with isolated_actors():

        class Order(Actor):  # the next deploy
            @workflow
            def run(self, ctx):
                match now_a:
                    case "sleep":
                        ctx.sleep("pay", 0)
                    case "loop":
                        ctx.loop("pay", lambda turn: outside.append("entered"))
                    case "try_block":
                        ctx.try_block("pay", lambda block: outside.append("entered"))
                ctx.sleep("a while", 60)

        assert rivet.drive(order) == "diverged"

    assert outside == []
    assert order.error.name == "HistoryDivergedError"
    assert order.history()["pay"].output == "paid"


def test_step_22_new_code_in_a_completed_body_does_not_reach_actors_that_passed_it(rivet, outside):
    """A deploy that changes a body changes nothing for an actor that has completed the step."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("price", lambda: outside.append("old price") or 10)
            ctx.sleep("a while", 60)

    order = Order.create("one")
    rivet.drive(order)
    rivet.advance(60)

    with isolated_actors():

        class Order(Actor):  # the next deploy
            @workflow
            def run(self, ctx):
                price = ctx.step("price", lambda: outside.append("new price") or 20, max_retries=7, atomic=False)
                ctx.sleep("a while", 60)
                return price

        assert rivet.drive(order) == "completed"
        assert order.output == 10

    assert outside == ["old price"]


def test_step_23_completed_steps_that_were_swapped_are_each_found_by_their_place(rivet, outside):
    """The order of steps is not enforced: each replays its own record, wherever the code asks for it."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("first", lambda: 1)
            ctx.step("second", lambda: 2)
            ctx.sleep("a while", 60)

    order = Order.create("one")
    rivet.drive(order)
    rivet.advance(60)

    with isolated_actors():

        class Order(Actor):  # the next deploy
            @workflow
            def run(self, ctx):
                second = ctx.step("second", lambda: outside.append("second"))
                first = ctx.step("first", lambda: outside.append("first"))
                ctx.sleep("a while", 60)
                return [first, second]

        assert rivet.drive(order) == "completed"

    assert order.output == [1, 2]
    assert outside == []


def test_step_24_a_pure_replay_reads_the_history_once_and_writes_none_of_it(rivet, outside):
    """A pass that finds everything on record: one statement reads the history, however long it is, none writes it."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("lines"):
                turn.step("line", outside.append, turn.iteration)
                if turn.iteration == 9:
                    break
            ctx.try_step("doubtful", self.doubtful, max_retries=0)
            return ctx.step("total", lambda: 10)

        def doubtful(self):
            raise ValueError("no")

    order = Order.create("one")
    with rivet.count_commits() as commits, rivet.crash_at(14) as crash, pytest.raises(SimulatedCrash):
        rivet.drive(order)  # a claim, ten lines, a failure, a total; dies at the release
    assert crash.crashed
    assert commits.count == 14
    recorded = len(order.history())

    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert rivet.drive(order) == "completed"

    touching = [q["sql"].split()[0] for q in queries if "django_rivet_entry" in q["sql"]]
    assert touching == ["SELECT"]
    assert outside == list(range(10))
    assert len(order.history()) == recorded
