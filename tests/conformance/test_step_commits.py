"""STEP: what a step costs and what it writes, and when."""

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, workflow
from django_rivet.testing import SimulatedCrash

pytestmark = pytest.mark.django_db


def test_step_06_nothing_is_written_before_an_ordinary_body(rivet, outside):
    """Differs on purpose from the reference, whose first flush writes them: no record, and no commit but the claim."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("atomic", self.look)
            ctx.step("outside", self.look, atomic=False)

        def look(self):
            outside.append((commits.count, [entry.path for entry in order.history()]))

    order = Order.create("one")

    with rivet.count_commits() as commits:
        assert rivet.drive(order) == "completed"

    assert outside == [(1, []), (2, ["atomic"])]
    assert commits.count == 4, "the claim, one commit per step, the release"


@pytest.mark.parametrize("atomic", [True, False])
def test_step_06_a_crash_in_a_body_leaves_no_record_and_counts_as_a_takeover(rivet, outside, atomic):
    """Differs on purpose from the reference, where it leaves no trace at all: the next attempt knows of the first."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, atomic=atomic)

        def charge(self):
            outside.append("charged")
            if len(outside) == 1:
                raise SimulatedCrash

    order = Order.create("one")

    with pytest.raises(SimulatedCrash):
        rivet.drive(order)
    assert len(order.history()) == 0
    assert rivet.drive(order) == "completed"

    assert outside == ["charged", "charged"]
    assert order.history()["charge"].attempts == 2


@pytest.mark.parametrize("options", [{"at_most_once": True}, {"atomic": False, "rollback_when": "attempted"}], ids=str)
def test_step_06_a_body_that_must_not_be_forgotten_has_its_start_on_record(rivet, outside, options):
    """``at_most_once``, and ``attempted`` without atomicity: the start is committed first, with the handler."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", self.charge, "order-1", rollback=self.refund, **options)

        def charge(self, order_id):
            [_, entry] = order.history()
            outside.append((entry.path, entry.status, entry.attempts, entry.rollback and entry.rollback.outcome))
            assert commits.count == 2, "the claim and the start"

        def refund(self, rollback, charge):
            pass

    order = Order.create("one")

    with rivet.count_commits() as commits:
        assert rivet.drive(order) == "completed"

    owed = "unknown" if "rollback_when" in options else None
    assert outside == [("charge", "running", 1, owed)]
    assert commits.count == 4, "the claim, the start, the record, the release"


def test_step_06_attempted_on_an_atomic_step_needs_no_start_record(rivet):
    """What an atomic body did is gone with its crash, so ``attempted`` means ``completed`` and costs nothing."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", lambda: 1, rollback=self.refund, rollback_when="attempted")

        def refund(self, rollback, charge):
            pass

    order = Order.create("one")

    with rivet.count_commits() as commits:
        assert rivet.drive(order) == "completed"

    assert commits.count == 3


def test_step_08_ephemeral_steps_ride_with_the_next_commit(rivet, outside):
    """Two ephemeral steps, a durable one and the end of the workflow cost exactly two writes."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("first", outside.append, "first", ephemeral=True)
            ctx.step("second", outside.append, "second", ephemeral=True)
            outside.append(len(order.history()))
            ctx.step("durable", outside.append, "durable")
            outside.append(len(order.history()))
            return "done"

    order = Order.create("one")

    with rivet.count_commits() as commits:
        assert rivet.drive(order) == "completed"

    assert outside == ["first", "second", 0, "durable", 3]
    assert commits.count == 3, "the claim, the durable step with both ephemeral ones, the release"


def test_step_08_an_ephemeral_step_at_the_end_rides_with_the_release(rivet):
    """The last write of a drive takes along what is still unwritten: it is there on the next pass."""
    ran = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("ephemeral", ran.append, 1, ephemeral=True)
            ctx.sleep("a while", 60)

    order = Order.create("one")

    with rivet.count_commits() as commits:
        rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert commits.count == 2
    assert ran == [1]
    assert order.history()["ephemeral"].status == "completed"


def test_step_08_an_ephemeral_step_is_written_before_the_outside_sees_what_it_gave(rivet, outside):
    """A body with ``atomic=False`` may hand out what was read before, so that is committed first."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            number = ctx.step("number", lambda: 7, ephemeral=True)
            ctx.step("publish", self.publish, number, atomic=False)

        def publish(self, number):
            outside.append((number, [entry.output for entry in order.history()]))

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == [(7, [7])]


def test_step_08_an_ephemeral_body_may_run_again_after_a_crash(rivet, outside):
    """That is the price of the commit it saves: what was not written did not happen."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("ephemeral", outside.append, "ran", ephemeral=True)
            ctx.step("durable", outside.append, "durable")

    order = Order.create("one")

    with rivet.crash_at(2), pytest.raises(SimulatedCrash):
        rivet.drive(order)
    assert len(order.history()) == 0
    assert rivet.drive(order) == "completed"

    assert outside == ["ran", "durable", "ran", "durable"]


@pytest.mark.parametrize("change", ["state", "row"])
def test_step_08_an_ephemeral_body_that_changed_something_is_written_with_its_change(rivet, change):
    """Only a body without an effect in the database saves its commit: change and record stay together."""

    class Order(Actor):
        class State:
            count: int = 0

        @workflow
        def run(self, ctx):
            ctx.step("change", self.change, ephemeral=True)

        def change(self):
            if change == "state":
                self.state.count += 1
            else:
                Group.objects.create(name="one")

    order = Order.create("one")

    with rivet.crash_at(3), pytest.raises(SimulatedCrash):
        rivet.drive(order)
    assert order.history()["change"].status == "completed"
    assert rivet.drive(order) == "completed"

    assert order.state.count + Group.objects.count() == 1
