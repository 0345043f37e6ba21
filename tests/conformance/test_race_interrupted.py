"""RACE-13, 16, 18: races under workers that stop, operators that cancel, limits, and code that changes."""

import threading
import uuid
from contextlib import suppress
from dataclasses import replace

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.racers import IN_BOTH_MODES, IN_THREADS, Gate, statuses
from tests.conformance.undoable import undoable


def long(branch):
    branch.sleep("long", 3600)


@IN_BOTH_MODES
def test_race_13_branches_see_that_their_worker_is_to_stop(mode, outside):
    """Differs on purpose: they stop at their next entries, the actor is due at once, and another worker goes on."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("race", {"steps": self.steps, "waits": long})

        def steps(self, branch):
            outside.append(("before", branch.is_evicted()))
            branch.step("first", outside.append, "first")
            outside.append(("after", branch.is_evicted()))
            return branch.step("second", lambda: "second")

    order = Order.create("one")
    stopping = replace(in_process_worker("stopping"), evicted=lambda: "first" in outside)

    assert drive_once(uuid.UUID(order.id), stopping)

    assert outside == [("before", False), "first", ("after", True)]
    assert statuses(order)["race"] == "running"
    outside.clear()
    assert drive(order) == "completed"
    assert order.output == ["steps", "second"]
    assert outside == [("before", False), ("after", False)]


@IN_BOTH_MODES
@pytest.mark.parametrize("rollback", [True, False])
def test_race_14_a_race_that_is_cancelled_has_no_winner(mode, outside, rollback):
    """What its branches did is undone where that was asked for; nothing of it goes on."""

    class Order(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.race("race", {name: self.branch(name) for name in ("left", "right")})

        def branch(self, name):
            def works(branch):
                branch.step("do", self.do, name, rollback=self.undo)
                branch.sleep("nap", 60)

            return works

    order = Order.create("one")
    assert drive(order) == "sleeping"
    order.cancel(rollback=rollback)
    advance(61)

    assert drive(order) == "cancelled"

    assert sorted(outside) == ["do left", "do right", *(["undo left", "undo right"] if rollback else [])]


@IN_BOTH_MODES
def test_race_13_a_run_that_is_out_of_time_ends_in_its_race(mode, outside):
    """Nobody wins then, and what the branches did is undone."""

    class Order(undoable(outside)):
        class Meta:
            run_timeout = 30

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.race("race", {"works": self.works, "waits": long})

        def works(self, branch):
            branch.step("do", self.do, "work", rollback=self.undo)
            branch.sleep("nap", 600)

    order = Order.create("one")
    assert drive(order) == "sleeping"
    advance(31)

    assert drive(order) == "failed"

    assert outside == ["do work", "undo work"]
    assert "30" in order.error.message


@IN_BOTH_MODES
def test_race_16_entries_of_the_winner_that_are_not_reached_any_more_diverge(mode, outside):
    """Differs on purpose: the branch does not win with a history that its code does not fit."""

    class Order(undoable(outside)):
        @workflow
        def run(self, ctx):
            return ctx.race("race", {"works": self.works, "waits": long})

        def works(self, branch):
            if "new code" not in outside:
                branch.step("do", self.do, "work")
                branch.sleep("nap", 60)
            return "done"

    order = Order.create("one")
    assert drive(order) == "sleeping"
    outside.append("new code")
    advance(61)

    assert drive(order) == "diverged"

    assert "'do'" in order.error.message
    assert statuses(order)["race"] == "running"
    outside.remove("new code")
    order.wake()
    assert drive(order) == "completed"
    assert order.output == ["works", "done"]


@IN_BOTH_MODES
@pytest.mark.parametrize("names", [["left"], ["left", "right", "more"], ["left", "other"]])
def test_race_18_other_branches_than_on_record_diverge(mode, names):
    """While it is running, and when it is decided; with the old ones put back it goes on."""
    present = ["left", "right"]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            won = ctx.race("race", {name: lambda branch: branch.sleep("nap", 10) for name in present})
            ctx.sleep("later", 60)
            return won

    order = Order.create("one")
    assert drive(order) == "sleeping"
    for seconds in (11, 61):
        advance(seconds)
        present[:] = names
        order.wake()
        assert drive(order) == "diverged"
        assert "the race 'race' is recorded with the branches 'left', 'right'" in order.error.message
        present[:] = ["left", "right"]
        order.wake()
        drive(order)

    assert order.status == "completed"
    assert order.output == ["left", None]


@IN_BOTH_MODES
def test_race_18_the_order_of_the_branches_may_change(mode):
    """They are known by their names."""
    present = ["left", "right"]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("race", {name: lambda branch: branch.sleep("nap", 10) for name in present})[0]

    order = Order.create("one")
    assert drive(order) == "sleeping"
    present.reverse()
    advance(11)

    assert drive(order) == "completed"
    assert order.output == "right"


@pytest.mark.django_db
@pytest.mark.parametrize("branches", [None, ["left"], {"left": 3}, {"a/b": long}, {"": long}])
def test_race_03_what_are_no_branches_is_refused(branches):
    """A usage error that names the race, before anything runs."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.race("race", branches)

    order = Order.create("one")

    assert drive(order) == "failed"

    assert order.error.name == "InvalidStepError"
    assert not statuses(order)


@IN_BOTH_MODES
def test_race_03_the_context_around_the_race_cannot_be_used_inside(mode):
    """A usage error of every branch fails the workflow, and says what to use."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.race("race", {"wrong": lambda branch: ctx.step("do", lambda: 1)})

    order = Order.create("one")

    assert drive(order) == "failed"

    assert order.error.name == "EntryInProgressError"


@IN_BOTH_MODES
def test_race_01_a_body_that_kills_its_worker_is_given_up_and_another_branch_wins(mode, outside, settings):
    """At ``MAX_TAKEOVERS`` the step ends as interrupted, which fails its branch only."""
    settings.RIVET = {**settings.RIVET, "MAX_TAKEOVERS": 2}

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("race", {"deadly": self.deadly, "waits": self.wait})

        def deadly(self, branch):
            branch.step("kill", self.kill)

        def wait(self, branch):
            branch.sleep("nap", 60)
            return "alive"

        def kill(self):
            outside.append("killed")
            raise SimulatedCrash

    order = Order.create("one")
    for _ in range(5):
        with suppress(SimulatedCrash):
            drive(order)
    advance(61)

    assert drive(order) == "completed"

    assert order.output == ["waits", "alive"]
    assert statuses(order)["race/deadly"] == "failed"
    assert len(outside) <= 4


@IN_THREADS
def test_race_11_the_winner_is_handed_on_though_the_worker_is_to_stop(outside):
    """A worker that stops while a loser hangs gives the actor away as soon as the race is decided."""
    told_to_stop = threading.Event()
    with Gate() as gate:

        class Order(Actor):
            @workflow
            def run(self, ctx):
                won = ctx.race("race", {"hangs": self.hang, "wins": self.win})
                ctx.step("note", outside.append, "note")
                return won

            def hang(self, branch):
                branch.step("hang", gate.hold_up, atomic=False)

            def win(self, branch):
                branch.step("wait", self.meet, atomic=False)
                return "won"

            def meet(self):
                gate.await_somebody()
                told_to_stop.set()

        order = Order.create("one")
        stopping = replace(in_process_worker("stopping"), evicted=told_to_stop.is_set)

        drive_once(uuid.UUID(order.id), stopping)

        assert gate.is_shut
        assert statuses(order)["race"] == "completed"
        assert outside == []
        assert drive(order) == "completed"
        assert order.output == ["wins", "won"]
        assert outside == ["note"]


@IN_BOTH_MODES
def test_loop_09_a_race_in_each_turn_of_a_loop_that_is_left_by_break(mode, outside):
    """Each turn has a race of its own; a crash between two of them repeats none."""

    class Order(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("turns"):
                winner, body = turn.race("race", {"letter": self.read, "timeout": self.wait})
                turn.step("note", outside.append, f"{turn.iteration} {winner} {body}")
                if body == "stop":
                    break
            return turn.iteration

        def read(self, branch):
            return branch.queue.next("letter").body

        def wait(self, branch):
            branch.sleep("nap", 10)

    order = Order.create("one")
    order.send("letters", "a")
    assert drive(order) == "sleeping"
    advance(11)
    assert drive(order) == "sleeping"
    order.send("letters", "b")
    order.send("letters", "stop")
    with crash_at(4, after=True), suppress(SimulatedCrash):
        drive(order)

    assert drive(order) == "completed"
    assert outside == ["0 letter a", "1 timeout None", "2 letter b", "3 letter stop"]
    assert order.output == 3
