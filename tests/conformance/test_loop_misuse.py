"""Contexts of a loop that are used where they do not belong: `EntryInProgressError`, and nothing is done."""

from typing import Any

import pytest

from django_rivet import Actor, Break, workflow
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db


def refused(run):
    """Drives `run(ctx)`; the actor, which must have failed for using a context in the wrong place."""

    class Loopy(Actor):
        @workflow
        def run(self, ctx):
            return run(ctx)

    loopy = Loopy.create("one")
    assert drive(loopy) == "failed", str(loopy.history())
    assert loopy.error.name == "EntryInProgressError", str(loopy.error)
    return loopy


@pytest.mark.parametrize("form", ["iterator", "function"])
def test_the_context_around_a_loop_is_busy_while_a_turn_runs(outside, form):
    """Inside a turn only the turn makes entries; the error names the loop and its iteration."""

    def run(ctx):
        if form == "function":
            ctx.loop("poll", lambda turn: ctx.step("look", outside.append, "looked"))
        for _turn in ctx.loop("poll"):
            ctx.step("look", outside.append, "looked")

    loopy = refused(run)
    assert outside == []
    assert "loop 'poll', iteration 0, is unfinished" in loopy.error.message


def test_a_turn_is_busy_while_a_loop_inside_it_runs(outside):
    """The rule holds at every level: neither the root nor the outer turn can be used in the inner one."""

    def run(ctx):
        for outer in ctx.loop("outer"):
            for _inner in outer.loop("inner"):
                outer.step("look", outside.append, "looked")

    assert "loop 'inner', iteration 0" in refused(run).error.message
    assert outside == []


@pytest.mark.parametrize("verb", ["sleep", "queue", "try_block", "loop", "now"])
def test_every_verb_of_the_context_around_is_refused(outside, verb):
    """It is not only steps that may not be called there."""
    calls = {
        "sleep": lambda ctx: ctx.sleep("other", 60),
        "queue": lambda ctx: ctx.queue.next("other"),
        "try_block": lambda ctx: ctx.try_block("other", outside.append),
        "loop": lambda ctx: ctx.loop("other", outside.append),
        "now": lambda ctx: ctx.now("other"),
    }

    def run(ctx):
        for _turn in ctx.loop("poll"):
            calls[verb](ctx)

    loopy = refused(run)
    assert [entry.path for entry in loopy.history()] == ["poll"]
    assert outside == []


@pytest.mark.parametrize("left_by", ["the next turn", "a break", "a caught exception"])
def test_a_turn_cannot_be_used_once_its_iteration_is_over(outside, left_by):
    """A turn that was kept is refused, however its iteration ended."""

    def run(ctx):
        kept: list[Any] = []
        try:
            for turn in ctx.loop("poll"):
                if kept:
                    kept[0].step("late", outside.append, "late")
                kept.append(turn)
                if left_by == "a break":
                    break
                if left_by == "a caught exception":
                    raise LookupError
        except LookupError:
            outside.append("caught")
        kept[0].step("late", outside.append, "late")

    assert "iteration 0 of loop 'poll' has ended" in refused(run).error.message
    assert "late" not in outside


@pytest.mark.parametrize("left_by", ["Continue", "Break", "a caught exception"])
def test_a_turn_that_a_function_kept_cannot_be_used_once_its_iteration_is_over(outside, left_by):
    """The same for the function form."""
    kept: list[Any] = []

    def look(turn):
        if kept:
            kept[0].step("late", outside.append, "late")
        kept.append(turn)
        if left_by == "Break":
            return Break()
        if left_by == "a caught exception":
            raise LookupError
        return None

    def run(ctx):
        try:
            ctx.loop("poll", look)
        except LookupError:
            outside.append("caught")
        kept[0].step("late", outside.append, "late")

    assert "iteration 0 of loop 'poll' has ended" in refused(run).error.message
    assert "late" not in outside


def test_an_iterator_that_is_kept_holds_its_loop_open(outside):
    """A `break` does not close what a variable still holds: the next call says so instead of going wrong."""

    def run(ctx):
        turns = ctx.loop("poll")
        for _turn in turns:
            break
        ctx.step("report", outside.append, "report")

    assert "loop 'poll', iteration 0, is unfinished" in refused(run).error.message
    assert outside == []


def test_an_iterator_that_is_kept_can_be_closed(outside):
    """`close()` is what the end of a `for` does for an iterator that nobody keeps."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            turns = ctx.loop("poll")
            for turn in turns:
                turn.step("look", outside.append, turn.iteration)
                if turn.iteration == 1:
                    break
            turns.close()
            ctx.sleep("rest", 60)
            ctx.step("report", outside.append, "report")

    poll = Poll.create("one")
    drive(poll)
    advance(61)

    assert drive(poll) == "completed"
    assert outside == [0, 1, "report"]


def test_an_iterator_that_outlives_its_workflow_does_no_harm(outside):
    """Closed long after the pass is over it changes nothing, and the next pass goes on."""
    kept: list[Any] = []

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            kept.append(ctx.loop("poll"))
            for turn in kept[-1]:
                turn.step("look", outside.append, turn.iteration)
                turn.sleep("rest", 60)
                if turn.iteration == 1:
                    kept[-1].close()
                    return "done"
            return None

    poll = Poll.create("one")
    for _ in range(2):
        assert drive(poll) == "sleeping"
        advance(61)
    before = str(poll.history())

    for turns in kept:
        turns.close()

    assert str(poll.history()) == before
    assert drive(poll) == "completed"
    assert outside == [0, 1]


def test_two_loops_of_one_context_cannot_run_side_by_side(outside):
    """Zipping two loops would start the second in the first one's turn; after a crash they would be out of step."""

    def run(ctx):
        for left, right in zip(ctx.loop("left"), ctx.loop("right"), strict=True):
            left.step("look", outside.append, "left")
            right.step("look", outside.append, "right")
            if left.iteration == 1:
                return

    assert "loop 'left', iteration 0, is unfinished" in refused(run).error.message
    assert outside == []


def test_a_loop_cannot_begin_inside_the_turn_of_another(outside):
    """An iterator made beforehand is refused when it is first asked for a turn, not only when it is made."""

    def run(ctx):
        later = ctx.loop("later")
        for _turn in ctx.loop("first"):
            for other in later:
                other.step("look", outside.append, "looked")
                return

    assert "loop 'first', iteration 0, is unfinished" in refused(run).error.message
    assert outside == []


def test_a_loop_of_an_ended_turn_cannot_begin(outside):
    """An iterator that was made in one iteration and is first asked in the next one has nowhere to stand."""

    def run(ctx):
        kept: list[Any] = []
        for turn in ctx.loop("outer"):
            kept.append(turn.loop("inner"))
            if turn.iteration == 1:
                for inner in kept[0]:
                    inner.step("look", outside.append, "looked")
                    return

    assert "iteration 0 of loop 'outer' has ended" in refused(run).error.message
    assert outside == []


def test_a_loop_cannot_begin_inside_a_steps_body(outside):
    """A body calls no verbs, and so it cannot ask a loop of the workflow for a turn."""

    def run(ctx):
        later = ctx.loop("later")
        ctx.step("body", lambda: next(later).iteration)

    assert "step 'body' is unfinished" in refused(run).error.message


def test_a_steps_body_cannot_go_on_with_the_loop_around_it(outside):
    """Asking for the next turn ends the iteration, and that has a step that is not over."""

    def run(ctx):
        turns = ctx.loop("poll")
        for turn in turns:
            turn.step("body", lambda: next(turns).iteration)
            outside.append(turn.iteration)
            if turn.iteration > 2:
                return

    assert "step 'body' is unfinished" in refused(run).error.message
    assert outside == []


def test_a_loop_cannot_begin_while_the_workflow_unwinds(outside):
    """A `finally` that goes through an iterator made beforehand gets the unwinding, not a turn."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            later = ctx.loop("later")
            try:
                ctx.sleep("rest", 60)
            finally:
                for turn in later:
                    outside.append(turn.iteration)
                    break

    poll = Poll.create("one")

    assert drive(poll) == "sleeping"
    assert outside == []
