"""RETRY: attempts that ended without an outcome, because their worker died or had to leave."""

from contextlib import nullcontext
from uuid import UUID

import pytest
from django.test import override_settings

from django_rivet import Actor, current_step, workflow
from django_rivet.runtime.drive import drive as drive_by
from django_rivet.runtime.worker import Worker
from django_rivet.testing import SimulatedCrash

pytestmark = pytest.mark.django_db


def drive_and_die(rivet, actor, times):
    for _ in range(times):
        with pytest.raises(SimulatedCrash):
            rivet.drive(actor)


def test_retry_13_a_death_is_not_charged_to_the_step(rivet, outside):
    """A worker that dies in a body costs none of its attempts, but the body can tell that it is not the first."""
    endings = ["error", "error", "death", "error", "death"]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=2, retry_backoff_base=0)

        @run.on_error
        def note(self, event):
            outside.append((event.attempt, event.remaining_retries, event.will_retry))

        def charge(self):
            outside.append(current_step().attempt)
            if endings.pop() == "death":
                raise SimulatedCrash
            raise ValueError("no")

    order = Order.create("one")

    drive_and_die(rivet, order, 2)
    assert rivet.drive(order) == "failed"

    assert outside == [1, 2, (1, 2, True), 3, 4, (2, 1, True), 5, (3, 0, False)]
    assert "after 3 attempts" in order.error.message
    assert order.history()["charge"].attempts == 5


@pytest.mark.parametrize("atomic", [True, False])
def test_retry_14_a_body_that_kills_its_workers_is_stopped(rivet, outside, atomic):
    """Differs on purpose from the reference, which tries for ever: after MAX_TAKEOVERS the kind is ``interrupted``."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("charge", self.charge, atomic=atomic)
            return [result.failure.kind, result.failure.error.name]

        @run.on_error
        def note(self, event):
            outside.append((event.kind, event.step_name, event.will_retry))

        def charge(self):
            outside.append("charged")
            raise SimulatedCrash

    order = Order.create("one")

    drive_and_die(rivet, order, 5)
    assert rivet.drive(order) == "completed"

    assert outside == ["charged"] * 5 + [("step", "charge", False)]
    assert order.output == ["interrupted", "StepInterruptedError"]
    assert "5 workers in a row died" in order.history()["charge"].error.message


@override_settings(RIVET={"MAX_TAKEOVERS": 2})
def test_retry_14_uncaught_the_interruption_fails_the_workflow_and_recover_tries_again(rivet, outside):
    """The operator's word is worth fresh attempts: ``recover()`` lets the body run again."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge)

        def charge(self):
            outside.append("charged")
            if len(outside) <= 2:
                raise SimulatedCrash
            return "ch-3"

    order = Order.create("one")

    drive_and_die(rivet, order, 2)
    assert rivet.drive(order) == "failed"
    assert order.error.name == "StepInterruptedError"
    assert order.recover()
    assert rivet.drive(order) == "completed"

    assert outside == ["charged"] * 3
    assert order.output == "ch-3"


def test_retry_14_the_step_after_an_interrupted_one_is_not_to_blame(rivet, outside):
    """The interruption is progress: what the workflow does in answer to it has all its chances."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            if not ctx.try_step("charge", self.charge).ok:
                ctx.step("reject", outside.append, "rejected")

        def charge(self):
            raise SimulatedCrash

    order = Order.create("one")

    drive_and_die(rivet, order, 5)
    assert rivet.drive(order) == "completed"

    assert outside == ["rejected"]


def test_retry_14_progress_sets_the_count_of_deaths_back(rivet, outside):
    """Four deaths in one step and four in the next are not eight in a row: both complete."""
    endings = [*["death"] * 4, "good"] * 2

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.work)
            ctx.step("ship", self.work)

        def work(self):
            outside.append(current_step().name)
            if endings.pop(0) == "death":
                raise SimulatedCrash

    order = Order.create("one")

    drive_and_die(rivet, order, 8)
    assert rivet.drive(order) == "completed"

    assert outside == ["charge"] * 5 + ["ship"] * 5


def test_retry_14_a_recorded_failure_is_progress_too(rivet, outside):
    """A step that dies and fails by turns is limited by its retries, not by the takeovers."""
    endings = ["death", "death", "death", "error"] * 2

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=0)

        def charge(self):
            ending = endings.pop(0) if endings else "good"
            outside.append(ending)
            if ending == "death":
                raise SimulatedCrash
            if ending == "error":
                raise ValueError("no")

    order = Order.create("one")

    drive_and_die(rivet, order, 6)
    assert rivet.drive(order) == "completed"

    assert outside == ["death", "death", "death", "error"] * 2 + ["good"]


def test_retry_15_a_start_on_record_is_neither_charged_nor_waited_for(rivet, outside):
    """Differs on purpose from the reference, where an attempt on disk counts and has an unknown error: see RETRY-14."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step(
                "charge", self.charge, atomic=False, max_retries=0, rollback=self.refund, rollback_when="attempted"
            )

        def charge(self):
            [_, entry] = order.history()
            outside.append((current_step().attempt, entry.status, entry.error))
            if len(outside) == 1:
                raise SimulatedCrash
            raise ValueError("no")

        def refund(self, rollback, charge):
            outside.append(rollback.outcome)

    order = Order.create("one")

    drive_and_die(rivet, order, 1)
    assert order.history()["charge"].status == "running"
    assert rivet.drive(order) == "failed"

    assert outside == [(1, "running", None), (2, "running", None), "unknown"]
    assert order.error.message == "step 'charge' failed after 1 attempt: ValueError: no"


def test_retry_15_an_at_most_once_body_that_died_is_not_run_again(rivet, outside):
    """Its start is on record and its end is not: it ends as ``interrupted``, and only ``recover()`` runs it again."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, at_most_once=True)

        def charge(self):
            outside.append("charged")
            if len(outside) == 1:
                raise SimulatedCrash

    order = Order.create("one")

    drive_and_die(rivet, order, 1)
    assert rivet.drive(order) == "failed"
    assert outside == ["charged"]
    assert order.error.name == "StepInterruptedError"
    order.recover()
    assert rivet.drive(order) == "completed"

    assert outside == ["charged"] * 2


@pytest.mark.parametrize("options", [{}, {"atomic": False}, {"max_retries": 0}], ids=str)
def test_retry_19_an_attempt_that_a_shutdown_ended_is_neither_counted_nor_reported(rivet, outside, options):
    """Differs on purpose from the reference: a body that sees the eviction and raises loses no attempt by it."""
    is_leaving = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, **options)

        @run.on_error
        def note(self, event):
            outside.append(event)

        def charge(self):
            step = current_step()
            outside.append(step.attempt)
            if len(outside) == 1:
                is_leaving.append(True)
            if step.is_evicted():
                raise InterruptedError("this worker shuts down")

    order = Order.create("one")
    leaving = Worker("leaving", keep_alive=lambda lease: nullcontext(), evicted=lambda: bool(is_leaving))

    assert drive_by(UUID(order.id), leaving)
    assert order.status == "sleeping"
    assert order.wake_at <= rivet.now()
    assert len(order.history()) == 0
    assert rivet.drive(order) == "completed"

    assert outside == [1, 1]
    assert order.history()["charge"].attempts == 1


def test_retry_19_a_shutdown_between_two_steps_hands_the_actor_over(rivet, outside):
    """A worker that leaves stops before the next body, and the hand-over is no takeover."""
    is_leaving = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("first", self.first)
            ctx.step("second", self.second)

        def first(self):
            outside.append("first")
            is_leaving.append(True)

        def second(self):
            outside.append(("second", current_step().attempt))

    order = Order.create("one")
    leaving = Worker("leaving", keep_alive=lambda lease: nullcontext(), evicted=lambda: bool(is_leaving))

    assert drive_by(UUID(order.id), leaving)
    assert outside == ["first"]
    assert rivet.drive(order) == "completed"

    assert outside == ["first", ("second", 1)]
