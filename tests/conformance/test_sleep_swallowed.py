"""SLEEP-12: user code that swallows a wait does not get past it, and records nothing as over that is not.

A `finally` that returns, or a bare `except`, swallows the engine's unwinding without meaning to. What encloses
it must not take that for an end: the next drive would find it on record and never wait at all.
"""

import pytest

from django_rivet import Actor, Break, Continue, CriticalError, workflow
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db


def test_sleep_12_a_broad_except_does_not_swallow_the_wait(outside):
    """The engine's unwinding is no `Exception`, so the workflow does not run on without having waited.

    Differs on purpose from the reference, where user code can catch the yield.
    """

    class Careless(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.sleep("rest", 60)
            except Exception:
                outside.append("swallowed")
            ctx.step("after", outside.append, "after")

    careless = Careless.create("one")

    assert drive(careless) == "sleeping"
    assert outside == []


def test_sleep_12_a_bare_except_only_meets_the_wait_again(outside):
    """Who catches everything gets no further than the next call, and a workflow that returns has not completed."""

    class Reckless(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.sleep("rest", 60)
            except BaseException:
                outside.append("swallowed")
            try:
                ctx.step("after", outside.append, "after")
            except BaseException:
                return "returned"

    reckless = Reckless.create("one")

    assert drive(reckless) == "sleeping"
    assert outside == ["swallowed"]
    assert [entry.path for entry in reckless.history()] == ["rest"]


def nap(context):
    """Sleeps, and is over before it is, as far as the caller can tell."""
    try:
        context.sleep("nap", 60)
    except BaseException:
        return "impatient"
    return "rested"


def started(outside, run):
    """An actor that runs `run(ctx)`, reports what came of it, and is on its first wait."""

    class Impatient(Actor):
        @workflow
        def run(self, ctx):
            outcome = run(ctx)
            ctx.step("report", outside.append, outcome)

    actor = Impatient.create("one")
    assert drive(actor) == "sleeping"
    assert outside == []
    return actor


def plain_block(ctx):
    return ctx.try_block("block", nap).value


def saga(ctx):
    return ctx.try_block("block", nap, rollback=True).value


def function_loop(ctx):
    return ctx.loop("loop", lambda turn: Break(nap(turn)))


def stateful_loop(ctx):
    def once(turn, state):
        outcome = nap(turn)
        return Break([*state, outcome]) if turn.iteration == 2 else Continue([*state, outcome])

    return ctx.loop("loop", once, state=[])[-1]


def iterator_loop(ctx):
    for turn in ctx.loop("loop"):
        outcome = nap(turn)
        if outcome == "impatient" or turn.iteration == 1:
            break
    return outcome


def iterator_in_a_block(ctx):
    return ctx.try_block("block", iterator_loop).value


def iterator_in_a_saga(ctx):
    return ctx.try_block("block", iterator_loop, rollback=True).value


@pytest.mark.parametrize(
    "construct",
    [plain_block, saga, function_loop, stateful_loop, iterator_loop, iterator_in_a_block, iterator_in_a_saga],
    ids=lambda function: function.__name__,
)
def test_sleep_12_what_swallows_a_wait_has_not_ended(outside, construct):
    """No block, loop or iteration is recorded as over while a wait in it is not; each wait is waited for."""
    actor = started(outside, construct)
    assert {entry.kind for entry in actor.history() if entry.status == "completed"} == set()
    began = actor.wake_at

    while drive(actor) == "sleeping":
        advance(30)

    assert actor.status == "completed", str(actor.error)
    assert outside == ["rested"]
    assert actor.history()["report"].started_at >= began


def test_sleep_12_a_scope_that_swallowed_a_wait_keeps_what_it_owes(outside):
    """What its steps owe is not settled before its end, and is undone where it fails after the wait."""

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for turn in ctx.loop("legs"):
                turn.try_block("leg", self.leg)
                raise LookupError("no seat left")

        def leg(self, block):
            block.rollback_checkpoint("leg")
            block.step("book", lambda: "booked", rollback=self.undo)
            try:
                block.sleep("rest", 60)
            finally:
                return  # noqa: B012 - what this swallows is the test

        def undo(self, rollback, output):
            outside.append("undone")

    trip = Trip.create("one")
    assert drive(trip) == "sleeping"
    assert trip.history()["legs/0/leg/book"].rollback.status == "owed"
    advance(61)

    assert drive(trip) == "failed"
    assert outside == ["undone"]


def test_sleep_12_a_checkpoints_scope_is_not_settled_by_a_swallowed_wait(outside):
    """Without a checkpoint around it, a block that ends well settles its steps; one that still waits does not."""

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("leg", self.leg)
            if not result.ok:
                raise LookupError("no leg")

        def leg(self, block):
            block.rollback_checkpoint("leg")
            block.step("book", lambda: "booked", rollback=self.undo)
            if nap(block) == "rested":
                block.step("ride", self.fail)

        def fail(self):
            raise CriticalError("no train")

        def undo(self, rollback, output):
            outside.append("undone")

    trip = Trip.create("one")
    assert drive(trip) == "sleeping"
    advance(61)

    assert drive(trip) == "failed"
    assert outside == ["undone"]


def test_sleep_12_a_usage_error_that_a_block_swallowed_is_raised_again(outside):
    """A block cannot end well over a mistake in the code either."""

    def careless(block):
        try:
            block.sleep("nap", "soon")
        except Exception:
            return "went on"

    class Careless(Actor):
        @workflow
        def run(self, ctx):
            outside.append(ctx.try_block("block", careless, rollback=True).value)

    actor = Careless.create("one")

    assert drive(actor) == "failed"
    assert actor.error.name == "InvalidStepError"
    assert outside == []
    assert len(actor.history()) == 0


def use_a_verb_wrongly(actor, ctx):
    ctx.sleep("nap", "soon")


def use_the_state_outside_a_step(actor, ctx):
    actor.state["count"] = 1


def call_another_actor_outside_a_step(actor, ctx):
    type(actor).get("one")


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (use_a_verb_wrongly, "InvalidStepError"),
        (use_the_state_outside_a_step, "StepOnlyError"),
        (call_another_actor_outside_a_step, "StepOnlyError"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_sleep_12_a_usage_error_that_was_swallowed_is_raised_by_the_next_call(outside, mistake, error):
    """A mistake in the code cannot be hidden by a broad `except`: nothing is done after it."""

    class Careless(Actor):
        state = {"count": 0}

        @workflow
        def run(self, ctx):
            try:
                mistake(self, ctx)
            except Exception:
                outside.append("swallowed")
            ctx.step("after", outside.append, "after")

    actor = Careless.create("one")

    assert drive(actor) == "failed"
    assert actor.error.name == error
    assert outside == ["swallowed"]
