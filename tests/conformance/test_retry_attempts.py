"""RETRY: how often a body runs."""

from contextlib import nullcontext
from uuid import UUID

import pytest

from django_rivet import Actor, StepExhaustedError, workflow
from django_rivet.runtime.drive import drive as drive_by
from django_rivet.runtime.worker import Worker
from django_rivet.testing import SimulatedCrash, isolated_actors

pytestmark = pytest.mark.django_db


def live(name="live", **options):
    """A worker that spends short waits in memory."""
    return Worker(name, keep_alive=lambda lease: nullcontext(), **options)


def drive_to_the_end(rivet, actor):
    while (status := rivet.drive(actor)) == "sleeping":
        rivet.advance(60)
    return status


def test_retry_01_a_body_that_fails_twice_succeeds_on_its_third_attempt(rivet, outside):
    """With three retries a body that fails twice runs exactly three times, and its value is that of the third."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, max_retries=3)

        def charge(self):
            outside.append("charged")
            if len(outside) < 3:
                raise ValueError("no")
            return "ch-3"

    order = Order.create("one")

    assert drive_to_the_end(rivet, order) == "completed"

    assert outside == ["charged"] * 3
    assert order.output == "ch-3"
    assert order.history()["charge"].attempts == 3


@pytest.mark.parametrize(
    ("options", "attempts"),
    [({}, 4), ({"max_retries": 0}, 1), ({"max_retries": 1}, 2), ({"max_retries": 6}, 7)],
)
def test_retry_02_max_retries_counts_what_follows_the_first_attempt(rivet, outside, options, attempts):
    """Attempts in all are ``max_retries`` and one; by default four."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, **options)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")

    assert drive_to_the_end(rivet, order) == "failed"

    assert outside == ["charged"] * attempts
    assert order.history()["charge"].attempts == attempts


@pytest.mark.parametrize("is_caught", [True, False])
def test_retry_03_after_the_last_attempt_the_workflow_gets_a_step_exhausted_error(rivet, outside, is_caught):
    """It names the step and the last error; uncaught, it fails the workflow."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("charge", self.charge, max_retries=1)
            except StepExhaustedError as error:
                outside.append((error.step_name, error.attempts, error.last_error))
                if not is_caught:
                    raise

        def charge(self):
            raise ValueError(f"no {order.history()['charge'].attempts if len(order.history()) else 0}")

    order = Order.create("one")

    assert drive_to_the_end(rivet, order) == ("completed" if is_caught else "failed")

    assert outside == [("charge", 2, "ValueError: no 1")]
    if not is_caught:
        assert str(order.error) == ("StepExhaustedError: step 'charge' failed after 2 attempts: ValueError: no 1")


def test_retry_04_without_retries_the_first_failure_is_final(rivet, outside):
    """``max_retries=0``: one attempt, and the workflow gets StepExhaustedError in the same pass."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=0)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == ["charged"]
    assert order.error.name == "StepExhaustedError"


@pytest.mark.parametrize(("failures", "status"), [(2, "completed"), (9, "failed")])
def test_retry_07_a_worker_that_may_pause_goes_on_in_one_drive(outside, failures, status):
    """Waits below the poll interval are spent in memory: one drive goes on to success, or to the last attempt."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=0.001)

        def charge(self):
            outside.append("charged")
            if len(outside) <= failures:
                raise ValueError("no")

    order = Order.create("one")

    assert drive_by(UUID(order.id), live())

    assert order.status == status
    assert outside == ["charged"] * min(failures + 1, 4)


def test_retry_07_a_worker_that_may_pause_gives_a_longer_wait_back(outside):
    """A wait worth a commit is waited for in the database, so that the worker is free for others."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=30)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")

    assert drive_by(UUID(order.id), live())

    assert outside == ["charged"]
    assert order.status == "sleeping"


def test_retry_13_attempts_add_up_over_workers_and_crashes(rivet, outside):
    """Each failure is stored when it happens: the next worker counts on, also after one died on its way out."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=3)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")
    stored = []

    drive_by(UUID(order.id), live("first"))
    stored.append(order.history()["charge"].attempts)
    rivet.advance(60)
    drive_by(UUID(order.id), live("second"))
    stored.append(order.history()["charge"].attempts)
    rivet.advance(60)
    with rivet.crash_at(3) as crash, pytest.raises(SimulatedCrash):  # the claim, the failure, the release
        rivet.drive(order)
    stored.append(order.history()["charge"].attempts)
    rivet.advance(60)
    assert rivet.drive(order) == "failed"

    assert crash.crashed
    assert stored == [1, 2, 3]
    assert outside == ["charged"] * 4


def test_retry_18_raising_the_limit_revives_a_step_that_waits(rivet, outside):
    """Limits are those of the code that runs: a deploy that allows more retries counts for steps under way."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=1)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")
    assert rivet.drive(order) == "sleeping"

    with isolated_actors():

        class Order(Actor):  # the next deploy
            @workflow
            def run(self, ctx):
                ctx.step("charge", self.charge, max_retries=3)

            def charge(self):
                outside.append("charged")
                raise ValueError("no")

        rivet.advance(60)
        assert drive_to_the_end(rivet, order) == "failed"

    assert outside == ["charged"] * 4


def test_retry_18_a_lowered_limit_ends_a_step_that_waits_once_and_for_all(rivet, outside):
    """What the workflow was told is final is recorded as final: raising the limit later does not take it back."""
    limits = [9, 0, 9]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("charge", self.charge, max_retries=limits[0])
            if not result.ok:
                ctx.step("fall back", outside.append, result.failure.kind)
            ctx.sleep("a while", 60)

        def charge(self):
            outside.append("charged")
            if len(outside) == 1:
                raise ValueError("no")

    order = Order.create("one")
    assert rivet.drive(order) == "sleeping"
    for _ in "lowered", "raised":
        del limits[0]
        rivet.advance(60)
        rivet.drive(order)

    assert order.status == "completed"
    assert outside == ["charged", "exhausted"]
    assert order.history()["charge"].status == "failed"
