"""LOOP-11 to 13, 23 to 27: where a loop goes on, and with which state."""

import uuid
from dataclasses import replace

import pytest

from django_rivet import Actor, Break, Continue, CriticalError, Queue, workflow
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import advance, count_commits, drive, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("form", ["iterator", "function"])
def test_loop_11_after_a_failure_the_loop_goes_on_in_that_iteration(outside, form):
    """`recover()` enters the failed iteration with the state it had; earlier ones are not entered.

    Differs on purpose from the reference, where any later run would do this: see DIVERGE-08.
    """
    faults = [CriticalError("no ink")]

    class Print(Actor):
        @workflow
        def run(self, ctx):
            if form == "function":
                return ctx.loop("pages", self.page, state={"pages": []})
            for turn in ctx.loop("pages", state={"pages": []}):
                outcome = self.page(turn, turn.state)
                if isinstance(outcome, Break):
                    return outcome.value
                turn.state = outcome.state
            return None

        def page(self, turn, state):
            outside.append(f"enter {turn.iteration} with {state['pages']}")
            turn.step("lay", outside.append, f"lay {turn.iteration}")
            turn.step("print", self.put, turn.iteration)
            pages = [*state["pages"], turn.iteration]
            return Break(pages) if turn.iteration == 2 else Continue({"pages": pages})

        def put(self, page):
            if page == 1 and faults:
                raise faults.pop()
            outside.append(f"print {page}")

    printer = Print.create("one")
    assert drive(printer) == "failed"
    outside.clear()

    assert printer.recover()

    assert drive(printer) == "completed"
    assert printer.output == [0, 1, 2]
    assert outside == ["enter 1 with [0]", "print 1", "enter 2 with [0, 1]", "lay 2", "print 2"]


@pytest.mark.parametrize("wait", ["sleep", "message", "retry"])
def test_loop_12_a_wait_in_an_iteration_resumes_there(outside, wait):
    """After a wait in iteration 1 nothing of iteration 0 is replayed."""
    faults = [OSError("busy")]

    class Watch(Actor):
        ticks = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("watch"):
                outside.append(f"enter {turn.iteration}")
                if turn.iteration == 1:
                    self.wait(turn)
                turn.step("look", outside.append, f"look {turn.iteration}")
                if turn.iteration == 2:
                    return

        def wait(self, turn):
            if wait == "sleep":
                turn.sleep("rest", 60)
            elif wait == "message":
                turn.queue.next("tick")
            else:
                turn.step("flaky", self.flaky, retry_backoff_base=30, retry_backoff_max=60)

        def flaky(self):
            if faults:
                raise faults.pop()

    watch = Watch.create("one")
    assert drive(watch) == "sleeping"
    assert outside == ["enter 0", "look 0", "enter 1"]
    advance(70)
    watch.send("ticks", "tick")

    assert drive(watch) == "completed"
    assert outside == ["enter 0", "look 0", "enter 1", "enter 1", "look 1", "enter 2", "look 2"]


def test_loop_13_ends_of_iterations_ride_with_the_next_commit():
    """Iterations cost no commit of their own: ten of them without a step are written when the drive ends."""

    class Count(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("count", state={"count": 0}):
                turn.state["count"] += 1
                if turn.state["count"] == 10:
                    return turn.state["count"]
            return None

    count = Count.create("one")

    with count_commits() as commits:
        drive()

    assert count.output == 10
    assert commits.count == 2, "the claim, and the release with all of it"


def test_loop_13_code_between_steps_may_run_again_but_completed_steps_do_not(outside):
    """After a wait in an iteration its code runs from the top, and its steps are replayed."""

    class Count(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("count", state={"count": 0}):
                turn.state["count"] += 1
                outside.append(f"code {turn.state['count']}")
                turn.step("count", outside.append, f"step {turn.state['count']}")
                turn.sleep("rest", 60)
                if turn.state["count"] == 2:
                    return turn.state["count"]
            return None

    count = Count.create("one")
    drive(count)
    advance(61)
    drive(count)
    advance(61)

    assert drive(count) == "completed"
    assert count.output == 2
    assert outside == ["code 1", "step 1", "code 1", "code 2", "step 2", "code 2"]


@pytest.mark.parametrize("form", ["iterator", "function"])
def test_loop_23_what_an_iteration_does_to_its_state_does_not_last_before_its_end(outside, form):
    """A replay starts from the recorded state, not from a half-changed one.

    Differs on purpose from the reference, where a change in place can be stored before the iteration ends.
    """

    class Cart(Actor):
        @workflow
        def run(self, ctx):
            start = {"items": ["a"]}
            if form == "function":
                return ctx.loop("fill", self.fill, state=start)
            for turn in ctx.loop("fill", state=start):
                outcome = self.fill(turn, turn.state)
                if isinstance(outcome, Break):
                    return outcome.value
            return None

        def fill(self, turn, state):
            state["items"].append("b")
            turn.step("note", lambda: outside.append(list(state["items"])))
            turn.sleep("rest", 60)
            state["items"].append("c")
            return Break(state["items"]) if turn.iteration == 1 else Continue(state)

    cart = Cart.create("one")
    for _ in range(2):
        assert drive(cart) == "sleeping"
        advance(61)

    assert drive(cart) == "completed"
    assert outside == [["a", "b"], ["a", "b", "c", "b"]]
    assert cart.output == ["a", "b", "c", "b", "c"]


def test_loop_24_a_deploy_cannot_change_the_initial_state_of_a_loop_that_began():
    """The initial state counts when the loop is first reached; later code that names another is ignored."""

    def deploy(start):
        class Count(Actor):
            @workflow
            def run(self, ctx):
                for turn in ctx.loop("count", state={"count": start}):
                    turn.sleep("rest", 60)
                    return turn.state["count"]
                return None

        return Count

    with isolated_actors():
        count = deploy(start=1).create("one")
        assert drive(count) == "sleeping"
    advance(61)
    with isolated_actors():
        deploy(start=100)

        assert drive(count) == "completed"

    assert count.output == 1


@pytest.mark.parametrize("form", ["iterator", "function"])
def test_loop_26_eviction_is_checked_at_the_top_of_every_iteration(outside, form):
    """A worker that shuts down hands over a loop that asks for no entry at all, and the next one goes on."""

    class Spin(Actor):
        @workflow
        def run(self, ctx):
            if form == "function":
                return ctx.loop("spin", self.turn, state=0)
            for turn in ctx.loop("spin", state=0):
                outcome = self.turn(turn, turn.state)
                if isinstance(outcome, Break):
                    return outcome.value
                turn.state = outcome.state
            return None

        def turn(self, turn, state):
            outside.append(state)
            return Break(state) if state == 5 else Continue(state + 1)

    spin = Spin.create("one")
    worker = replace(in_process_worker("leaving"), evicted=lambda: len(outside) == 3)

    assert drive_once(uuid.UUID(spin.id), worker)
    assert (spin.status, outside) == ("sleeping", [0, 1, 2])

    assert drive(spin) == "completed"
    assert outside == [0, 1, 2, 3, 4, 5]
    assert spin.output == 5


def test_loop_27_a_loop_in_which_the_workflow_failed_is_failed_until_it_is_recovered(outside):
    """A failed workflow shows no loop that seems to run, and `recover()` opens it again.

    Differs on purpose from the reference, where the loop is running for good.
    """
    faults = [CriticalError("no")]

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("outer"):
                for inner in turn.loop("inner"):
                    inner.step("look", self.look)
                    return "found"
            return None

        def look(self):
            if faults:
                raise faults.pop()

    poll = Poll.create("one")

    assert drive(poll) == "failed"
    assert poll.history()["outer"].status == "failed"
    assert poll.history()["outer/0/inner"].status == "failed"

    poll.recover()

    assert poll.history()["outer"].status == "running"
    assert drive(poll) == "completed"
    assert poll.history()["outer"].status == "completed"
