"""JOIN: a worker dies at each commit of a join in turn, and another one goes on."""

from contextlib import suppress
from itertools import count

import pytest

from django_rivet import Actor, CriticalError, Queue, current_step, workflow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.desks import mail
from tests.conformance.modes import IN_BOTH_MODES

pytestmark = [*IN_BOTH_MODES, pytest.mark.parametrize("after", [False, True], ids=["before", "after"])]


def trips(outside):
    """A join of three branches, one of which sleeps and one of which takes a message; then it all fails."""

    class Trip(Actor):
        class State:
            log: list[str] = []

        letters = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("begin", self.write, "begin", rollback=self.take_back)
            results = ctx.join("all", {"plain": self.plain, "sleeps": self.sleeps, "takes": self.takes})
            ctx.step("between", self.write, str(sorted(results)))
            ctx.step("fail", self.fail)

        def plain(self, b):
            calls = {"atomic": False, "rollback": self.call_off, "rollback_when": "attempted", "rollback_atomic": True}
            b.rollback_checkpoint("mine")
            b.step("one", self.write, "plain one", rollback=self.take_back)
            b.step("two", self.call, "plain two", **calls)

        def sleeps(self, b):
            b.step("one", self.write, "sleeps one", rollback=self.take_back)
            b.sleep("nap", 60)
            b.step("two", self.write, "sleeps two", rollback=self.take_back)

        def takes(self, b):
            letter = b.queue.next("letter", ["letters"], completable=True)
            b.step("one", self.write, f"takes {letter.body}", rollback=self.take_back)
            letter.complete()
            b.step("two", self.write, "takes two", rollback=self.take_back)

        def write(self, thing):
            self.state.log.append(thing)
            return thing

        def take_back(self, rollback, thing):
            self.state.log.append(f"undo {thing}")

        def call(self, thing):
            outside.append((thing, current_step().idempotency_key))
            return thing

        def call_off(self, rollback, thing):
            self.state.log.append(f"undo {rollback.args[0]}")

        def fail(self):
            raise CriticalError("no")

    return Trip


def until_its_end(trip):
    for _ in range(3):
        if drive(trip) == "sleeping":
            advance(61)
    return trip.status


def test_join_14_a_saga_of_branches_survives_a_crash_at_every_commit(outside, after):
    """Nothing is lost, no atomic effect comes twice, each handler runs once, newest first by the records."""
    trip_class = trips(outside)
    done = ["begin", "plain one", "sleeps one", "sleeps two", "takes hello", "takes two"]

    for n in count(1):
        outside.clear()
        trip = trip_class.create(str(n))
        trip.send("letters", "hello")
        with crash_at(n, after) as point, suppress(SimulatedCrash):
            until_its_end(trip)

        assert until_its_end(trip) == "failed", n
        assert trip.error.name == "CriticalError", n
        log = trip.state.log
        between = log.index(str(["plain", "sleeps", "takes"]))
        assert sorted(log[:between]) == done, n
        steps = [e for e in trip.history() if e.rollback is not None]
        assert {e.rollback.status for e in steps} == {"completed"}, n
        newest_first = [e.output for e in sorted(steps, key=lambda e: e.seq, reverse=True)]
        assert log[between + 1 :] == [f"undo {thing}" for thing in newest_first], n
        assert len(newest_first) == 7, n
        assert {thing for thing, _ in outside} == {"plain two"}, n
        assert len(outside) <= 2, n
        assert len(set(outside)) == 1, n
        assert mail(trip) == [("completed", "null")], n
        assert len({e.seq for e in trip.history()}) == len(list(trip.history())), n
        if not point.crashed:
            assert n > 18
            return


def test_join_04_joins_in_loops_and_in_joins_survive_a_crash_at_every_commit(after):
    """Each atomic effect once, each message once, in iterations that are forgotten behind it."""

    class Desk(Actor):
        class State:
            log: list[str] = []

        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("turns", state=[], history_prune_interval=1):
                taken = turn.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "ab"})
                turn.state += sorted(taken.values())
                if turn.iteration == 1:
                    return turn.state
            return None

        def branch(self, b, name):
            letter = b.queue.next("letter", ["letters"]).body
            inner = b.join("inner", {n: lambda c, n=n: c.step("do", self.write, f"{letter}{n}") for n in "xy"})
            b.sleep("nap", 0)
            return min(inner.values())

        def write(self, thing):
            self.state.log.append(thing)
            return thing

    for n in count(1):
        actor = Desk.create(str(n))
        for letter in "1234":
            actor.send("letters", letter)
        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive(actor)

        assert drive(actor) == "completed", n
        assert sorted(actor.state.log) == [f"{letter}{side}" for letter in "1234" for side in "xy"], n
        assert sorted(actor.output[:2]) == ["1x", "2x"], n
        assert sorted(actor.output[2:]) == ["3x", "4x"], n
        assert mail(actor) == [("handled", None)] * 4, n
        if not point.crashed:
            assert n > 8
            return


def test_queue_24_an_answer_that_a_branch_gives_survives_a_crash_at_every_commit(after):
    """Whoever completes it: one answer, and the message behind it is taken once."""

    class Desk(Actor):
        letters = Queue(str, int)

        @workflow
        def run(self, ctx):
            batch = ctx.queue.next_batch("batch", ["letters"], count=2, completable=True)
            ctx.join("all", {"code": lambda b: self.in_code(b, batch[0]), "body": lambda b: self.in_body(b, batch[1])})
            return ctx.queue.next("next", ["letters"]).body

        def in_code(self, b, message):
            b.step("before", int)
            message.complete(0)
            b.step("after", int)

        def in_body(self, b, message):
            b.step("do", message.complete, 1)
            b.step("after", int)

    for n in count(1):
        actor = Desk.create(str(n))
        for letter in "abc":
            actor.send("letters", letter)
        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive(actor)

        assert drive(actor) == "completed", n
        assert actor.output == "c", n
        assert mail(actor) == [("completed", "0"), ("completed", "1"), ("handled", None)], n
        assert actor.history()["batch"].status == "completed", n
        if not point.crashed:
            assert n > 5
            return
