"""The turns of a loop: their state, and what a wait inside them means."""

import pytest

from django_rivet import Actor, workflow
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db


def test_a_turn_has_a_copy_of_its_state():
    """Neither the initial object, nor another turn's, nor one that was kept, is changed through a turn."""
    start = {"numbers": [0]}
    states = []

    class Count(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("count", state=start):
                states.append(turn.state)
                turn.state["numbers"].append(turn.iteration + 1)
                if turn.iteration == 2:
                    return turn.state["numbers"]
            return None

    count = Count.create("one")

    assert drive(count) == "completed"
    assert count.output == [0, 1, 2, 3]
    assert start == {"numbers": [0]}
    assert [state["numbers"] for state in states] == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_a_state_that_cannot_be_stored_is_refused_at_the_end_of_its_iteration(outside):
    """The error names the place inside the value, and the next iteration does not begin."""

    class Count(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("count", state={}):
                outside.append(turn.iteration)
                turn.state["workers"] = {"of": {1, 2}}

    count = Count.create("one")

    assert drive(count) == "failed"
    assert count.error.name == "OutputNotSerializableError"
    assert "workers.of" in count.error.message
    assert outside == [0]


def test_waits_cannot_be_swallowed_inside_a_turn(outside):
    """The engine's unwinding passes `except Exception`, and a bare `except` only meets it again at the next call."""

    class Stubborn(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("work"):
                try:
                    turn.sleep("rest", 60)
                except Exception:
                    outside.append("swallowed")
                except BaseException:
                    outside.append("seen")
                finally:
                    outside.append("finally")
                outside.append("went on")
                turn.step("work", outside.append, "worked")

    stubborn = Stubborn.create("one")

    assert drive(stubborn) == "sleeping"
    assert outside == ["seen", "finally", "went on"]
    assert [entry.path for entry in stubborn.history()] == ["work", "work/0/rest"]


def test_the_next_turn_is_not_handed_out_while_the_workflow_unwinds(outside):
    """Going on with the loop after a swallowed wait only raises the wait again: no second iteration begins."""

    class Stubborn(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("work"):
                outside.append(turn.iteration)
                try:
                    turn.sleep("rest", 60)
                except BaseException:
                    continue

    stubborn = Stubborn.create("one")

    assert drive(stubborn) == "sleeping"
    assert outside == [0]


def test_a_deploy_that_does_not_leave_a_loop_that_was_left_diverges(outside):
    """What came after the loop is on record: the loop cannot have a further iteration in front of it."""

    def deploy(last):
        class Poll(Actor):
            @workflow
            def run(self, ctx):
                for turn in ctx.loop("poll"):
                    turn.step("look", outside.append, turn.iteration)
                    if turn.iteration == last:
                        break
                ctx.sleep("rest", 60)

        return Poll

    with isolated_actors():
        poll = deploy(last=1).create("one")
        assert drive(poll) == "sleeping"
    advance(61)
    with isolated_actors():
        deploy(last=5)

        assert drive(poll) == "diverged"

    assert "loop 'poll' is recorded as left in iteration 1" in poll.error.message
    assert outside == [0, 1]
