"""JOIN-16, ROLLBACK-19, SAGA-04: what branches did is undone, newest first over all of them, from records."""

import pytest

from django_rivet import RollbackError, workflow
from django_rivet.testing import advance, drive
from tests.conformance.modes import IN_BOTH_MODES
from tests.conformance.undoable import shop, undoable

pytestmark = IN_BOTH_MODES


def undone(actor):
    """Paths of the steps that were undone, in the order in which their handlers were to run."""
    steps = [e for e in actor.history() if e.rollback is not None and e.rollback.status == "completed"]
    return [e.path for e in sorted(steps, key=lambda e: e.seq, reverse=True)]


def handlers(outside):
    return [each.removeprefix("undo ") for each in outside if str(each).startswith("undo ")]


def test_saga_04_parallel_reservations_of_which_one_fails(outside):
    """Differs on purpose from the reference: completed siblings are undone, and then what came before the join."""

    class Trip(shop(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("charge", self.charge, "deposit", rollback=self.refund)
            ctx.join(
                "reserve",
                {
                    name: lambda b, n=name: (
                        b.step("reserve", self.reserve, n, rollback=self.release),
                        b.step("confirm", self.confirm, n),
                    )
                    for name in ("flight", "bad hotel", "car")
                },
            )

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    released = outside[-4:-1]
    assert sorted(released) == [f"release reservation-{n}" for n in ("bad hotel", "car", "flight")]
    assert outside[-1] == "refund charge-deposit"
    assert trip.error.name == "JoinError"
    assert released == [f"release reservation-{path.split('/')[1]}" for path in undone(trip)[:3]]


def test_rollback_19_newest_first_over_all_branches_by_the_records(outside):
    """Differs on purpose from the reference, where none of these handlers runs. Ties there are none: each record has
    a number of its own.
    """

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("before", self.do, "before", rollback=self.undo)
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})
            ctx.step("behind", self.do, "behind", rollback=self.undo)
            ctx.step("fail", self.fail)

        def branch(self, b, name):
            for n in range(3):
                b.step(f"s{n}", self.do, f"all/{name}/s{n}", rollback=self.undo)
                b.sleep(f"nap{n}", {"a": 3, "b": 1, "c": 2}[name])

    trip = Trip.create("one")
    while drive(trip) == "sleeping":
        advance(1.01)

    order = handlers(outside)
    assert order == undone(trip)
    assert order[0] == "behind"
    assert order[-1] == "before"
    # What a clock has set apart: b was done with its last step when the others were still at their second.
    assert order.index("all/a/s2") < order.index("all/c/s2") < order.index("all/b/s2")
    assert len(order) == 11


def test_rollback_19_what_waited_and_what_failed_is_undone_as_well(outside):
    """A cancellation meets one branch that failed, one that is done, and one that sleeps."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {"failed": self.failing, "done": self.branch, "asleep": self.sleeping})

        def branch(self, b):
            b.step("do", self.do, b.label, rollback=self.undo)

        def failing(self, b):
            self.branch(b)
            b.step("fail", self.fail)

        def sleeping(self, b):
            self.branch(b)
            b.sleep("nap", 60)
            b.step("never", self.do, "never", rollback=self.undo)

    trip = Trip.create("one")
    assert drive(trip) == "sleeping"
    trip.cancel(rollback=True)

    assert drive(trip) == "cancelled"
    assert sorted(handlers(outside)) == ["branch 'asleep'", "branch 'done'", "branch 'failed'"]
    assert "do never" not in outside


def test_join_16_a_checkpoint_in_front_of_the_join_counts_inside_its_branches(outside):
    """In inner joins, loops and blocks of theirs as well; one inside a branch does not count in its sibling."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {"a": self.deep, "b": lambda b: b.step("do", self.do, "b", rollback=self.undo)})
            ctx.step("fail", self.fail)

        def deep(self, b):
            for turn in b.loop("turns", state=0):
                turn.join("inner", {"x": lambda c, t=turn: c.step("do", self.do, f"x{t.state}", rollback=self.undo)})
                turn.state += 1
                if turn.state == 2:
                    break
            b.try_block("block", lambda block: block.step("do", self.do, "block", rollback=self.undo))

    trip = Trip.create("one")

    assert drive(trip) == "failed"
    assert sorted(handlers(outside)) == ["b", "block", "x0", "x1"]
    assert handlers(outside).index("block") < handlers(outside).index("x1") < handlers(outside).index("x0")


def test_join_16_a_checkpoint_of_one_branch_does_not_count_in_another():
    """The step is refused before its body runs."""
    done = []

    class Trip(undoable(done)):
        @workflow
        def run(self, ctx):
            ctx.join("all", {"a": self.with_checkpoint, "b": self.without})

        def with_checkpoint(self, b):
            b.rollback_checkpoint("mine")
            b.sleep("nap", 60)

        def without(self, b):
            b.step("do", self.do, "b", rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"
    assert trip.error.name == "RollbackCheckpointError"
    assert done == []


# Branches with a checkpoint of their own ---------------------------------------------------------


def branches_of_their_own(outside, *, outer, fails):
    """A join of two branches, each with a checkpoint, and what comes behind."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            if outer:
                ctx.rollback_checkpoint("trip")
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "ab"})
            ctx.sleep("between", 60)
            if fails == "behind":
                ctx.step("fail", self.fail)

        def branch(self, b, name):
            b.rollback_checkpoint("mine")
            b.step("do", self.do, name, rollback=self.undo)
            if name == "b":
                b.sleep("nap", 60)
                if fails == "b":
                    b.step("fail", self.fail)

    return Trip.create("one")


def status_of_undo(trip, name):
    return trip.history()[f"all/{name}/do"].rollback.status


def test_a_branch_that_ended_well_is_settled_only_when_its_join_has_ended_well(outside):
    """Until then it may still be undone; from then on, without a checkpoint around it, never."""
    trip = branches_of_their_own(outside, outer=False, fails="behind")

    assert drive(trip) == "sleeping"
    assert trip.history()["all/a"].status == "completed"
    assert status_of_undo(trip, "a") == "owed"
    advance(61)
    assert drive(trip) == "sleeping"
    assert [status_of_undo(trip, n) for n in "ab"] == ["settled", "settled"]
    advance(61)
    assert drive(trip) == "failed"

    assert handlers(outside) == []


def test_a_branch_that_ended_well_is_undone_where_its_join_fails(outside):
    """Its sibling failed, and nothing catches that."""
    trip = branches_of_their_own(outside, outer=False, fails="b")
    drive(trip)
    advance(61)

    assert drive(trip) == "failed"
    assert sorted(handlers(outside)) == ["a", "b"]
    assert handlers(outside) == [path.split("/")[1] for path in undone(trip)]


def test_under_a_checkpoint_around_them_branches_pass_on_what_they_owe(outside):
    """It is undone although their join has ended well."""
    trip = branches_of_their_own(outside, outer=True, fails="behind")
    for _ in range(2):
        assert drive(trip) == "sleeping"
        advance(61)

    assert drive(trip) == "failed"
    assert sorted(handlers(outside)) == ["a", "b"]
    assert handlers(outside) == [path.split("/")[1] for path in undone(trip)]


@pytest.mark.parametrize("ends", ["well", "with a failure"])
def test_a_join_whose_failure_is_caught_goes_with_the_scope_around_it(outside, ends):
    """What its branches owe is undone where that fails, and settled where it ends well."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("block", lambda block: block.join("all", {"a": self.good, "b": self.bad}))
            assert not result.ok
            if ends != "well":
                ctx.step("fail", self.fail)

        def good(self, b):
            b.rollback_checkpoint("mine")
            b.step("do", self.do, "a", rollback=self.undo)

        def bad(self, b):
            b.step("fail", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == ("completed" if ends == "well" else "failed")
    assert handlers(outside) == ([] if ends == "well" else ["a"])
    expected = "settled" if ends == "well" else "completed"
    assert trip.history()["block/all/a/do"].rollback.status == expected


# Scoped blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, RollbackError])
def test_try_a_scoped_block_around_a_join_undoes_all_of_its_branches(outside, error):
    """Newest first, and the failure comes back as data; what was done outside of the block stays."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("before", self.do, "before", rollback=self.undo)
            result = ctx.try_block("saga", self.saga, rollback=True)
            ctx.step("after", self.do, "after")
            return [result.ok, result.failure.source, result.failure.name, result.failure.kind]

        def saga(self, saga):
            saga.rollback_checkpoint("saga")
            saga.step("first", self.do, "first", rollback=self.undo)
            saga.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})

        def branch(self, b, name):
            b.step("do", self.do, name, rollback=self.undo)
            if name == "b":
                b.step("fail", self.fail) if error is None else b.step("fail", self.stop)

        def stop(self):
            raise RollbackError("all back")

    trip = Trip.create("one")

    assert drive(trip) == "completed"
    assert trip.output == [False, "join", "all", None if error is None else "rollback"]
    assert handlers(outside) == [path.removesuffix("/do").rpartition("/")[2] for path in undone(trip)]
    assert sorted(handlers(outside)) == ["a", "b", "c", "first"]
    assert handlers(outside)[-1] == "first"
    assert outside[-1] == "do after"


def test_try_scoped_blocks_in_branches_fail_alone(outside):
    """Each undoes its own, while the sibling goes on; the join gets both outcomes."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            return ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in ("good", "bad")})

        def branch(self, b, name):
            result = b.try_block("saga", lambda saga: self.saga(saga, name), rollback=True)
            b.sleep("nap", 10)
            return [result.ok, b.step("after", self.do, f"after {name}")]

        def saga(self, saga, name):
            saga.rollback_checkpoint("saga")
            saga.step("do", self.do, name, rollback=self.undo)
            if name == "bad":
                saga.step("fail", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "sleeping"
    assert handlers(outside) == ["bad"]
    advance(11)
    assert drive(trip) == "completed"
    assert trip.output == {"good": [True, "after good"], "bad": [False, "after bad"]}
    assert handlers(outside) == ["bad"]


def test_try_a_block_that_waits_for_the_retry_of_its_handler_does_not_hold_up_its_sibling(outside):
    """The sibling runs to its end; then the actor waits, as one that rolls back, and takes messages meanwhile."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            return ctx.join("all", {"bad": self.bad, "good": lambda b: b.step("do", self.do, "good")})

        def bad(self, b):
            return b.try_block("saga", self.saga, rollback=True).ok

        def saga(self, saga):
            saga.rollback_checkpoint("saga")
            saga.step("do", self.do, "bad", rollback=self.undo_late, rollback_backoff_base=10, rollback_backoff_max=10)
            saga.step("fail", self.fail)

        def undo_late(self, rollback, output):
            if rollback.attempt == 1:
                raise OSError("busy")
            self.undo(rollback, output)

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert trip.history()["all/good"].status == "completed"
    advance(12)
    assert drive(trip) == "completed"
    assert handlers(outside) == ["bad"]
    assert trip.output == {"bad": False, "good": "good"}


def test_a_rollback_that_waits_in_the_middle_goes_on_in_the_same_order(outside):
    """Handlers over all branches, one of which has to be retried: after the restart none comes twice or too early."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})
            ctx.step("fail", self.fail)

        def branch(self, b, name):
            for n in range(2):
                handler = self.undo_late if (name, n) == ("b", 0) else self.undo
                b.step(f"s{n}", self.do, f"all/{name}/s{n}", rollback=handler, rollback_backoff_base=10)

        def undo_late(self, rollback, output):
            if rollback.attempt < 3:
                raise OSError("busy")
            self.undo(rollback, output)

    trip = Trip.create("one")

    for _ in range(2):
        assert drive(trip) == "rolling_back"
        in_front = handlers(outside)
        assert drive(trip) == "rolling_back"
        assert handlers(outside) == in_front, "the older ones wait"
        advance(40)
    assert drive(trip) == "failed"

    assert handlers(outside) == undone(trip)
    assert len(set(handlers(outside))) == 6
    assert handlers(outside)[len(in_front)] == "all/b/s0"


def test_a_handler_of_a_branch_that_is_given_up_stops_the_rollback_and_recover_goes_on(outside):
    """Older ones of other branches are still owed."""
    working = []

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {n: lambda b, n=n: self.branch(b, n) for n in "abc"})
            ctx.step("fail", self.fail)

        def branch(self, b, name):
            b.sleep("one after another", "abc".index(name) + 1)
            b.step("do", self.do, name, rollback=self.undo_maybe, rollback_max_retries=0)

        def undo_maybe(self, rollback, output):
            if output == "b" and not working:
                raise OSError("no")
            self.undo(rollback, output)

    trip = Trip.create("one")
    while (status := drive(trip)) == "sleeping":
        advance(1.1)

    assert status == "rollback_failed"
    assert handlers(outside) == ["c"]
    working.append(1)
    trip.recover()
    assert drive(trip) == "failed"
    assert handlers(outside) == ["c", "b", "a"]
