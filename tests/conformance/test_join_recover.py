"""RECOVER, and `replay_from`: joins that failed, or are to be done again."""

from contextlib import suppress
from itertools import count

import pytest

from django_rivet import CriticalError, current_step, workflow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.desks import desk, mail
from tests.conformance.modes import IN_BOTH_MODES
from tests.conformance.undoable import undoable

pytestmark = IN_BOTH_MODES


def attempt(outside, working, thing):
    outside.append(thing)
    if thing not in working:
        raise CriticalError(f"{thing} is closed")
    return thing


def test_recover_04_the_branch_that_failed_has_fresh_attempts(outside):
    """Differs on purpose from the reference, where failed branches stay failed. Completed ones are not run again."""
    working = ["good"]
    actor = desk(
        lambda self, ctx: ctx.join(
            "all",
            {
                name: lambda b, n=name: b.step("do", attempt, outside, working, n, atomic=False, max_retries=0)
                for name in ("good", "bad", "worse")
            },
        )
    )
    assert drive(actor) == "failed"
    working += ["bad", "worse"]

    actor.recover()
    assert actor.history()["all"].status == "running"
    assert drive(actor) == "completed"

    assert sorted(outside) == ["bad", "bad", "good", "worse", "worse"]
    assert actor.output == {"good": "good", "bad": "bad", "worse": "worse"}
    assert actor.history(generation=0)["all/bad"].status == "failed"


def test_recover_04_steps_of_the_failed_branch_in_front_of_the_failure_are_not_run_again(outside):
    """Nor its waits; and a branch that failed by its own code is run from its records."""
    working = []

    def branch(b):
        b.step("first", outside.append, "first")
        b.sleep("nap", 60)
        if not working:
            raise KeyError("code")
        return b.step("last", outside.append, "last")

    actor = desk(lambda self, ctx: ctx.join("all", {"a": branch, "b": lambda b: b.step("do", outside.append, "b")}))
    drive(actor)
    advance(61)
    assert drive(actor) == "failed"
    working.append(1)

    actor.recover()
    assert drive(actor) == "completed"
    assert sorted(outside) == ["b", "first", "last"]


def test_recover_04_a_failure_in_an_inner_join(outside):
    """All joins and branches around it are open again; nothing else is."""
    working = ["x", "y"]

    def inner(b):
        return b.join("inner", {n: lambda c, n=n: c.step("do", attempt, outside, working, n) for n in ("x", "bad")})

    actor = desk(
        lambda self, ctx: ctx.join(
            "outer", {"left": inner, "right": lambda b: b.step("do", attempt, outside, working, "y")}
        )
    )
    assert drive(actor) == "failed"
    working.append("bad")

    actor.recover()
    assert drive(actor) == "completed"
    assert sorted(outside) == ["bad", "bad", "x", "y"]
    assert actor.output == {"left": {"x": "x", "bad": "bad"}, "right": "y"}


def test_recover_04_in_a_loop_the_join_of_the_failed_iteration_is_done_again(outside):
    """Earlier iterations stay as they are."""
    working = [f"{n}{name}" for n in range(4) for name in "ab" if (n, name) != (2, "b")]

    def work(self, ctx):
        for turn in ctx.loop("turns", state=0):
            turn.join(
                "all",
                {
                    name: lambda b, w=f"{turn.iteration}{name}": b.step("do", attempt, outside, working, w)
                    for name in "ab"
                },
            )
            turn.state += 1
            if turn.state == 4:
                return turn.state
        return None

    actor = desk(work)
    assert drive(actor) == "failed"
    working.append("2b")

    actor.recover()
    assert drive(actor) == "completed"
    assert sorted(outside) == ["0a", "0b", "1a", "1b", "2a", "2b", "2b", "3a", "3b"]
    assert actor.output == 4


@pytest.mark.parametrize("caught", ["plain", "scoped"])
def test_recover_03_a_join_whose_failure_was_caught_stays_as_recorded(outside, caught):
    """The workflow built on it."""
    working = []

    def work(self, ctx):
        result = ctx.try_block(
            "block",
            lambda block: block.join("all", {"bad": lambda b: b.step("do", attempt, outside, working, "bad")}),
            rollback=caught == "scoped",
        )
        ctx.step("after", attempt, outside, working, "after")
        return result.ok

    actor = desk(work)
    assert drive(actor) == "failed"
    working += ["bad", "after"]

    actor.recover()
    assert drive(actor) == "completed"
    assert outside == ["bad", "after", "after"]
    assert actor.output is False


@pytest.mark.parametrize("fails", ["in a branch", "behind the join"])
def test_recover_05_what_was_undone_in_branches_runs_again(outside, fails):
    """Also in branches that had ended well, and under a new key each; what has no handler does not run again."""
    keys = {}
    working = []

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            value = ctx.join("book", {"flight": self.book("flight"), "hotel": self.book("hotel"), "check": self.check})
            if fails == "behind the join":
                self.may_fail(ctx)
            return value

        def book(self, thing):
            def branch(b):
                b.step("look", outside.append, f"look {thing}")
                return b.step("book", self.reserve, thing, rollback=self.undo)

            return branch

        def check(self, b):
            b.step("fine", outside.append, "fine")
            if fails == "in a branch":
                self.may_fail(b)

        def may_fail(self, ctx):
            ctx.step("check", attempt, [], working, "check")

        def reserve(self, thing):
            keys.setdefault(thing, []).append(current_step().idempotency_key)
            return self.do(thing)

    trip = Trip.create("one")
    assert drive(trip) == "failed"
    assert {trip.history()[f"book/{n}/book"].rollback.status for n in ("flight", "hotel")} == {"completed"}
    working.append("check")

    trip.recover()
    assert drive(trip) == "completed"

    assert trip.output == {"flight": "flight", "hotel": "hotel", "check": None}
    assert sorted(outside) == [
        *("do flight", "do flight", "do hotel", "do hotel", "fine"),
        *("look flight", "look hotel", "undo flight", "undo hotel"),
    ]
    assert all(len(set(each)) == 2 for each in keys.values())
    # It ended well this time, and all is settled.
    assert {trip.history()[f"book/{n}/book"].rollback.status for n in ("flight", "hotel")} == {"settled"}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_recover_04_whatever_dies_on_the_way(after):
    """Each atomic effect is there once in the end."""
    working = []

    class Trip(undoable([])):
        class State:
            booked: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("book", {n: lambda b, n=n: self.branch(b, n) for n in "ab"})
            ctx.step("check", attempt, [], working, "check")

        def branch(self, b, name):
            b.step("book", self.book, name, rollback=self.give_back)
            b.step("pay", self.book, f"pay {name}")
            b.join("more", {"c": lambda c: c.step("book", self.book, f"{name}c", rollback=self.give_back)})

        def book(self, thing):
            self.state.booked.append(thing)
            return thing

        def give_back(self, rollback, thing):
            self.state.booked.remove(thing)

    for n in count(1):
        working.clear()
        trip = Trip.create(str(n))
        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive(trip)
            working.append("check")
            trip.recover()
            drive(trip)
        if "check" not in working:
            assert drive(trip) == "failed", n
            assert sorted(trip.state.booked) == ["pay a", "pay b"], n
            working.append("check")
            trip.recover()
        assert drive(trip) == "completed", n
        assert sorted(trip.state.booked) == ["a", "ac", "b", "bc", "pay a", "pay b"], n
        if not point.crashed:
            assert n > 15
            return


# replay_from -------------------------------------------------------------------------------------


def test_replay_from_a_step_in_a_branch_opens_its_branch_and_its_join(outside):
    """What was recorded before it stays, in its branch and in others; its key stays as well."""
    keys = []

    def two():
        outside.append("two")
        keys.append(current_step().idempotency_key)

    def first(b):
        b.step("one", outside.append, "one")
        b.sleep("behind the other", 10)
        b.step("two", two)
        return b.step("three", outside.append, "three")

    def work(self, ctx):
        ctx.join("all", {"first": first, "other": lambda b: b.step("do", outside.append, "other")})
        ctx.step("after", outside.append, "after")

    actor = desk(work)
    drive(actor)
    advance(11)
    assert drive(actor) == "completed"
    assert sorted(outside) == ["after", "one", "other", "three", "two"]

    actor.replay_from("all/first/two")
    assert actor.history()["all"].status == "running"
    assert drive(actor) == "completed"

    assert sorted(outside[5:]) == ["after", "three", "two"]
    assert len(set(keys)) == 1
    assert actor.history(generation=0)["all/first/two"].seq


def test_replay_from_gives_messages_back_that_branches_have_taken():
    """In their old places; the join takes them once more."""

    def branch(b):
        return b.queue.next("wait", ["letters"]).body

    def work(self, ctx):
        ctx.step("before", int)
        value = ctx.join("all", {"a": branch, "b": branch})
        ctx.sleep("after", 60)
        return value

    actor = desk(work)
    for letter in "xy":
        actor.send("letters", letter)
    drive(actor)

    actor.replay_from("before")
    assert [status for status, _ in mail(actor)] == ["queued", "queued"]
    drive(actor)
    advance(61)
    assert drive(actor) == "completed"
    assert sorted(actor.output.values()) == ["x", "y"]
