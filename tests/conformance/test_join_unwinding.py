"""JOIN-10: what ends a branch without being its failure, and which of several such reasons the actor is left with."""

from contextlib import suppress

from django_rivet import Actor, workflow
from django_rivet.testing import advance, drive
from tests.conformance.desks import desk
from tests.conformance.modes import IN_BOTH_MODES
from tests.conformance.undoable import undoable

pytestmark = IN_BOTH_MODES


def test_join_10_a_name_used_twice_in_a_branch_is_no_failure_of_it(outside):
    """The branch is left without a record, and the actor diverges: no ``except`` of the workflow gets past that."""

    def work(self, ctx):
        with suppress(Exception):
            ctx.join(
                "all",
                {
                    "good": lambda b: b.step("do", outside.append, "good"),
                    "wrong": lambda b: (b.step("twice", outside.append, 1), b.step("twice", outside.append, 2)),
                },
            )
        ctx.step("after", outside.append, "after")

    actor = desk(work)

    assert drive(actor) == "diverged"

    assert sorted(outside, key=str) == [1, "good"]
    assert actor.history()["all"].status == "running"
    assert "all/wrong" not in [entry.path for entry in actor.history()]


def test_join_10_a_missing_checkpoint_in_a_branch_fails_the_workflow_and_undoes_nothing(outside):
    """Differs from a branch's failure in that nothing is compensated: the code is wrong, not the world."""

    class Desk(undoable(outside)):
        @workflow
        def run(self, ctx):
            with suppress(Exception):
                ctx.join(
                    "all",
                    {
                        "mine": self.mine,
                        "wrong": lambda b: b.step("do", self.do, "wrong", rollback=self.undo),
                    },
                )
            ctx.step("after", self.do, "after")

        def mine(self, branch):
            branch.rollback_checkpoint("mine")
            branch.step("do", self.do, "mine", rollback=self.undo)

    actor = Desk.create("one")

    assert drive(actor) == "failed"

    assert actor.error.name == "RollbackCheckpointError"
    assert outside == ["do mine"]
    assert actor.history()["all/mine/do"].rollback.status == "owed"
    assert actor.history()["all"].status == "running"


def test_join_10_a_changed_branch_outranks_a_waiting_one():
    """Divergence is what the actor is left with, though another branch only waits."""
    names = ["old"]

    def work(self, ctx):
        ctx.join("all", {"waits": lambda b: b.sleep("nap", 60), "changed": self.changed})

    class Desk(Actor):
        @workflow
        def run(self, ctx):
            return work(self, ctx)

        def changed(self, branch):
            branch.step(names[-1], lambda: 1)
            branch.sleep("nap", 60)

    actor = Desk.create("one")
    drive(actor)
    names.append("new")
    advance(10)
    actor.wake()

    assert drive(actor) == "diverged"
    assert "'old'" in actor.error.message
    assert "all/changed" in actor.error.message
    names.append("old")
    advance(61)
    assert drive(actor) == "completed"
