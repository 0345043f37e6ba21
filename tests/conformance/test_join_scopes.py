"""JOIN: undo scopes. Branches with checkpoints of their own, and scoped blocks around joins and inside branches."""

import pytest

from django_rivet import RollbackError, workflow
from django_rivet.testing import advance, drive
from tests.conformance.modes import IN_BOTH_MODES
from tests.conformance.undoable import handlers, undoable, undone

pytestmark = IN_BOTH_MODES


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
