"""DIVERGE-06 to 08: the first input counts, completed is final, and failed waits for an operator."""

import pytest

from django_rivet import Actor, CriticalError, Queue, WorkflowFinishedError, workflow
from django_rivet.models import WorkflowRun
from django_rivet.testing import advance, count_commits, drive, isolated_actors, now

pytestmark = pytest.mark.django_db


def deploy(run):
    """The actor class in the version whose workflow is `run(ctx)`; the latest one is what drives."""

    class Order(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            return run(ctx)

    return Order


def test_diverge_06_the_input_of_the_first_call_is_stored():
    """Later calls find the actor that there is, and what they bring is ignored."""

    class Order(Actor):
        state = {"item": ""}

        def create_state(self, input):
            return {"item": input["item"]}

        @workflow
        def run(self, ctx):
            first = ctx.step("read", lambda: self.state["item"])
            ctx.sleep("rest", 60)
            return [first, ctx.step("read again", lambda: self.state["item"])]

    order = Order.get_or_create("one", {"item": "pen"})
    drive(order)

    again = Order.get_or_create("one", {"item": "ink"})
    advance(61)

    assert (order.created, again.created, again.id) == (True, False, order.id)
    assert drive(again) == "completed"
    assert again.output == ["pen", "pen"]


def test_diverge_07_a_completed_workflow_is_never_run_again(outside):
    """Neither a deploy with more steps nor anything that makes a worker look changes its output.

    Differs on purpose from the reference, which runs the function again, and the steps of a later deploy.
    """
    with isolated_actors():
        order = deploy(lambda ctx: ctx.step("pay", lambda: "paid")).create("one")
        assert drive(order) == "completed"
    with isolated_actors():
        deploy(lambda ctx: [ctx.step("pay", lambda: "paid"), ctx.step("ship", outside.append, "shipped")])
        WorkflowRun.objects.filter(pk=order.id).update(due_at=now())
        advance(10**6)

        with count_commits() as commits:
            drive()
            assert drive(order) == "completed"

    assert (order.output, outside) == ("paid", [])
    assert len(order.history()) == 1
    assert commits.count <= 1, "a claim that finds nothing to do is all"


def test_diverge_07_a_completed_workflow_takes_no_messages_and_no_recovery():
    """What could make it go on is refused."""
    order = deploy(lambda ctx: "done").create("one")
    drive(order)

    with pytest.raises(WorkflowFinishedError):
        order.send("letters", "hello")
    assert order.recover() is False
    assert order.cancel() is False
    assert (order.status, order.output) == ("completed", "done")


def test_diverge_08_a_failed_workflow_is_not_run_again_by_itself(outside):
    """It keeps its error through deploys, messages and the passing of time.

    Differs on purpose from the reference, where any later run executes it again.
    """

    def failing(ctx):
        outside.append("enter")
        raise LookupError("no stock")

    with isolated_actors():
        order = deploy(failing).create("one")
        assert drive(order) == "failed"
    order.send("letters", "hello")
    advance(10**6)
    with isolated_actors():
        deploy(lambda ctx: outside.append("enter again"))
        WorkflowRun.objects.filter(pk=order.id).update(due_at=now())
        drive()

        assert drive(order) == "failed"

    assert outside == ["enter"]
    assert (order.error.name, order.error.message) == ("LookupError", "no stock")


def test_diverge_08_only_recover_makes_a_failed_workflow_go_on(outside):
    """An operator's word gives the failed step fresh attempts, and the error is gone when it completes."""
    faults = [CriticalError("no answer")]

    def pay():
        if faults:
            raise faults.pop()
        return "paid"

    def run(ctx):
        ctx.step("reserve", outside.append, "reserved")
        return ctx.step("pay", pay)

    order = deploy(run).create("one")
    assert drive(order) == "failed"
    assert drive(order) == "failed"

    assert order.recover() is True

    assert drive(order) == "completed"
    assert (order.output, order.error, outside) == ("paid", None, ["reserved"])
