"""RACE-11, 12: the race returns while the bodies of its losers hang, and nothing of these lands any more."""

import gc
import threading

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, Event, Queue, action, current_step, workflow
from django_rivet.models import Event as EventRow
from django_rivet.models import Message
from django_rivet.testing import drive
from tests.conformance.racers import IN_THREADS, PATIENCE_SECONDS, Gate, statuses, threads_but
from tests.journeys.workers import eventually

pytestmark = IN_THREADS

TIME_OUT = 0.2


def timeout(branch):
    branch.sleep("nap", TIME_OUT)
    return "too late"


OTHERS: list[threading.Thread] = []
"""The threads that were there before the test."""


@pytest.fixture(autouse=True)
def threads_of_others():
    OTHERS[:] = threading.enumerate()


def all_threads_have_ended():
    """Those as well that only a traceback of an earlier test keeps alive."""
    gc.collect()
    eventually(
        lambda: not threads_but(OTHERS, "rivet-branch", "rivet-left-behind", "rivet-body"),
        PATIENCE_SECONDS,
        f"no thread is left over of {[thread.name for thread in threading.enumerate()]}",
    )


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("limit", [0, 30])
def test_race_12_a_sleep_wins_against_a_body_that_hangs(atomic, limit):
    """Differs on purpose: the documented pattern for time-outs times out, with and without a time limit of the step."""
    with Gate() as gate:

        class Order(Actor):
            @workflow
            def run(self, ctx):
                return ctx.race("order", {"charge": self.charge, "timeout": timeout})

            def charge(self, branch):
                branch.step("ask", gate.hold_up, atomic=atomic, timeout=limit)

        order = Order.create("one")

        assert drive(order) == "completed"

        assert gate.is_shut
        assert order.output == ["timeout", "too late"]
        assert statuses(order)["order/charge"] == "cancelled"
    all_threads_have_ended()


class Late(Actor):
    """Does all that a body can do, when the gate has been opened."""

    class Meta:
        abstract = True

    class State:
        done: list[str] = []

    letters = Queue(str, str)
    happened = Event(str)

    @action
    def read(self) -> list[str]:
        return self.state.done


ACTS = {
    "state": lambda actor, letter: actor.state.done.append("late"),
    "row": lambda actor, letter: Group.objects.create(name="late"),
    "send": lambda actor, letter: type(actor).get("one").send("letters", "late"),
    "call": lambda actor, letter: type(actor).get("one").read(),
    "query": lambda actor, letter: Group.objects.count(),
    "broadcast": lambda actor, letter: actor.happened.broadcast("late"),
    "complete": lambda actor, letter: letter.complete("late"),
    "return": lambda actor, letter: "late",
}


@pytest.mark.parametrize(
    ("act", "atomic"), [(act, atomic) for act in ACTS for atomic in (True, False) if atomic or act != "state"]
)
def test_race_11_nothing_of_a_loser_that_hangs_lands(act, atomic):
    """Differs on purpose: the winner does not wait for it, and whatever it does afterwards is refused or dropped."""
    with Gate() as gate:

        class Order(Late):
            @workflow
            def run(self, ctx):
                won = ctx.race("order", {"charge": self.charge, "timeout": timeout})
                ctx.step("note", self.note)
                return won

            def charge(self, branch):
                letter = branch.queue.next("letter", completable=True)
                return branch.step("ask", self.ask, letter, atomic=atomic)

            def ask(self, letter):
                gate.hold_up_and_then(lambda: ACTS[act](self, letter))

            def note(self):
                self.state.done.append("note")

        order = Order.create("one")
        order.send("letters", "a")

        assert drive(order) == "completed"

        assert gate.is_shut
        seen = statuses(order)
        gate.open()
        assert order.output == ["timeout", "too late"]
        assert order.state.done == ["note"]
        assert not Group.objects.exists()
        assert not EventRow.objects.exists()
        assert list(Message.objects.values_list("body", "status", "response")) == [('"a"', "queued", None)]
        assert statuses(order) == seen
        if act in ("row", "send", "call", "query"):
            assert len(gate.refused) == 1
    all_threads_have_ended()


def test_race_02_losers_see_that_they_are_not_wanted_any_more():
    """``is_evicted()`` turns true in the body, which may leave then, and in workflow code that clears up."""
    seen = []
    with Gate() as decided, Gate() as in_body:

        class Order(Actor):
            @workflow
            def run(self, ctx):
                return ctx.race("order", {"aware": self.aware, "quick": self.quick})

            def aware(self, branch):
                try:
                    branch.step("watch", self.watch, branch, atomic=False)
                finally:
                    seen.append(("branch", branch.is_evicted()))

            def watch(self, branch):
                seen.append(("body before", current_step().is_evicted(), branch.is_evicted()))
                in_body.entered.set()
                decided.hold_up()
                seen.append(("body after", current_step().is_evicted(), branch.is_evicted()))

            def quick(self, branch):
                in_body.await_somebody()
                return "quick"

        order = Order.create("one")

        assert drive(order) == "completed"
        assert order.output == ["quick", "quick"]
        decided.open()

    assert sorted(seen) == [("body after", True, True), ("body before", False, False), ("branch", True)]
    all_threads_have_ended()


def test_race_11_all_branches_of_a_join_in_a_loser_are_cut_off():
    """However deep their bodies hang."""
    with Gate() as gate:

        class Order(Late):
            @workflow
            def run(self, ctx):
                return ctx.race("order", {"both": self.both, "timeout": timeout})

            def both(self, branch):
                branch.join("parts", dict.fromkeys(("left", "right"), self.part))

            def part(self, branch):
                branch.step("ask", self.ask)

            def ask(self):
                gate.hold_up_and_then(lambda: Group.objects.create(name="late"))

        order = Order.create("one")

        assert drive(order) == "completed"

        assert gate.is_shut
        gate.open()
        assert not Group.objects.exists()
        assert len(gate.refused) == 2
        assert statuses(order) == {
            "order": "completed",
            "order/both": "cancelled",
            "order/both/parts": "cancelled",
            "order/timeout": "completed",
            "order/timeout/nap": "completed",
        }
    all_threads_have_ended()


def test_race_11_a_body_in_the_thread_of_the_branch_around_it_is_cut_off_too(settings):
    """Where no thread is free for a join's branch it runs in that of the join; the race is decided all the same."""
    settings.RIVET = {**settings.RIVET, "BRANCH_THREADS": 2}
    with Gate() as gate:

        class Order(Late):
            @workflow
            def run(self, ctx):
                return ctx.race("order", {"timeout": self.timeout, "both": self.both})

            def timeout(self, branch):
                branch.step("await", gate.await_somebody, atomic=False)
                return "too late"

            def both(self, branch):
                branch.join("parts", dict.fromkeys(("left", "right"), self.part))

            def part(self, branch):
                branch.step("ask", gate.hold_up)

        order = Order.create("one")

        assert drive(order) == "completed"

        assert gate.is_shut
        assert order.output == ["timeout", "too late"]
    all_threads_have_ended()


def test_race_17_a_race_whose_first_branch_sleeps_loses_no_records():
    """Differs on purpose: branches that commit at the same time leave a history that can be loaded again."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("turns"):
                turn.race("race", {"sleeps": lambda b: b.sleep("nap", 60), "left": self.steps, "right": self.steps})
                if turn.iteration == 4:
                    return

        def steps(self, branch):
            for number in range(3):
                branch.step(f"step {number}", str, number, atomic=number % 2 == 0)

    order = Order.create("one")

    assert drive(order) == "completed"

    for iteration in range(5):
        race = f"turns/{iteration}/race"
        seen = statuses(order)
        assert seen[race] == "completed"
        assert sorted(seen[f"{race}/{name}"] for name in ("sleeps", "left", "right")) == [
            "cancelled",
            "cancelled",
            "completed",
        ]
    order.replay_from()
    assert drive(order) == "completed"


def test_loop_09_a_race_in_each_turn_of_a_loop_with_a_loser_that_hangs():
    """Each turn has a winner of its own, and what the losers of earlier turns do holds up nobody."""
    with Gate() as gate:

        class Order(Actor):
            class State:
                turns: list[str] = []

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("turns"):
                    winner, _ = turn.race("race", {"hangs": self.hang, "goes": self.go})
                    turn.step("note", self.note, f"{turn.iteration} {winner}")
                    if turn.iteration == 3:
                        break

            def hang(self, branch):
                branch.step("hang", self.watch, atomic=False)

            def watch(self):
                gate.hold_up()
                assert current_step().is_evicted()

            def go(self, branch):
                branch.step("wait", gate.await_somebody, atomic=False)
                branch.step("go", lambda: 1)

            def note(self, what):
                self.state.turns.append(what)

        order = Order.create("one")

        assert drive(order) == "completed"

        assert gate.is_shut
        assert order.state.turns == [f"{number} goes" for number in range(4)]
    all_threads_have_ended()
