"""RETRY: how long an actor waits for the next attempt."""

import time
from datetime import timedelta

import pytest

from django_rivet import Actor, RetryAfter, workflow
from django_rivet.engine.retry import backoff
from django_rivet.testing import SimulatedCrash

pytestmark = pytest.mark.django_db


def test_retry_05_a_failure_ends_the_pass_and_the_actor_waits_in_the_database(rivet, outside):
    """The actor sleeps until the very instant that the step's record and the event name."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=300, retry_backoff_max=600)
            outside.append("went on")

        @run.on_error
        def note(self, event):
            outside.append(event.retry_at)

        def charge(self):
            raise ValueError("no")

    order = Order.create("one")

    assert rivet.drive(order) == "sleeping"

    [retry_at] = outside
    assert order.wake_at == order.history()["charge"].due_at == retry_at
    assert retry_at > rivet.now()


def test_retry_06_a_pass_before_the_due_time_changes_nothing_and_waits_again(rivet, outside):
    """A worker that comes too early does not call the body, keeps the due time, and arms the alarm again."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=300, retry_backoff_max=600)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")
    with rivet.crash_at(3) as crash, pytest.raises(SimulatedCrash):  # the claim, the failure, the release
        rivet.drive(order)
    assert crash.crashed
    recorded = order.history()["charge"]

    assert rivet.drive(order) == "sleeping"

    assert outside == ["charged"]
    assert order.history()["charge"] == recorded
    assert order.wake_at == recorded.due_at
    rivet.advance(550)
    assert rivet.drive(order) == "sleeping"
    assert outside == ["charged"]
    rivet.advance(120)
    rivet.drive(order)
    assert outside == ["charged", "charged"]


@pytest.mark.parametrize(
    ("options", "delays"),
    [
        ({}, [0.2, 0.4, 0.8]),  # 0.1 * 2, * 4, * 8
        ({"retry_backoff_base": 3}, [6, 12, 24]),
        ({"retry_backoff_base": 3, "retry_backoff_max": 10}, [6, 10, 10]),
        ({"retry_backoff_base": 300}, [30, 30, 30]),
        ({"retry_backoff_base": 0}, [0, 0, 0]),
    ],
)
def test_retry_08_the_delay_doubles_from_twice_the_base_up_to_the_maximum(rivet, outside, options, delays):
    """After the n-th failed attempt: ``min(max, base * 2**n)``; told to the hook, stored, and then waited for."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_jitter=0, **options)

        @run.on_error
        def note(self, event):
            outside.append(event.retry_delay)

        def charge(self):
            raise ValueError("no")

    order = Order.create("one")
    waited = []
    while rivet.drive(order) == "sleeping":
        entry = order.history()["charge"]
        waited.append((entry.due_at - entry.ended_at).total_seconds())
        rivet.advance(waited[-1])

    assert order.status == "failed"
    assert outside == pytest.approx([*delays, None])
    assert waited == pytest.approx([delay for delay in delays if delay], abs=1e-5)


@pytest.mark.parametrize(
    ("attempt", "base", "maximum", "jitter", "chance", "delay"),
    [
        (1, 0.1, 30, 0.1, 0.0, 0.2),  # the formula
        (1, 0.1, 30, 0.1, 0.5, 0.21),  # half of the bit: 0.2 * 1.05
        (1, 0.1, 30, 0.1, 1.0, 0.22),  # all of it: 0.2 * 1.1
        (8, 0.1, 30, 0.1, 0.0, 25.6),
        (9, 0.1, 30, 0.1, 0.0, 30),  # 51.2 is capped
        (9, 0.1, 30, 0.1, 1.0, 33),  # the bit comes on top of the cap
        (5_000, 0.1, 30, 0, 0.0, 30),  # 2.0**5000 overflows
        (5_000, 0, 30, 0, 0.0, 0),
    ],
)
def test_retry_09_jitter_only_adds(attempt, base, maximum, jitter, chance, delay):
    """Differs on purpose from the reference, which has no jitter: never less than the formula, at most a tenth more."""
    assert backoff(attempt, base, maximum, jitter, chance) == pytest.approx(delay)


def test_retry_09_jitter_is_in_the_stored_due_time(rivet, outside, monkeypatch):
    """The bit is drawn once, when the attempt fails: the stored due time holds it, and no later pass draws again."""
    monkeypatch.setattr("random.random", lambda: 1.0)

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=10, retry_jitter=0.5)

        @run.on_error
        def note(self, event):
            outside.append(event.retry_delay)

        def charge(self):
            raise ValueError("no")

    order = Order.create("one")

    rivet.drive(order)

    entry = order.history()["charge"]
    assert outside == [30]
    assert (entry.due_at - entry.ended_at).total_seconds() == pytest.approx(30, abs=1e-5)


def test_retry_09_the_delay_counts_from_the_end_of_the_attempt(rivet):
    """Differs on purpose from the reference: a body slower than its delay is not tried again at once."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_jitter=0)

        def charge(self):
            time.sleep(0.3)
            raise ValueError("no")

    order = Order.create("one")

    assert rivet.drive(order) == "sleeping"

    entry = order.history()["charge"]
    assert entry.due_at - entry.started_at >= timedelta(seconds=0.3 + 0.2)


@pytest.mark.parametrize("pause", [120, 120.0, timedelta(minutes=2)])
def test_retry_09_a_body_may_name_the_delay_itself(rivet, outside, pause):
    """``RetryAfter`` takes the formula's place, jitter included; it counts as a failed attempt."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=1)

        @run.on_error
        def note(self, event):
            outside.append((event.attempt, event.retry_delay))

        def charge(self):
            raise RetryAfter(pause)

    order = Order.create("one")

    assert rivet.drive(order) == "sleeping"
    rivet.advance(110)
    assert rivet.drive(order) == "sleeping"
    rivet.advance(10)
    assert rivet.drive(order) == "failed"

    assert outside == [(1, 120), (2, None)]
    assert order.error.name == "StepExhaustedError"


@pytest.mark.parametrize("pause", [-1, 1e12, float("inf"), float("nan")])
def test_retry_09_a_senseless_delay_is_still_a_failed_attempt(rivet, outside, pause):
    """The delay came from outside: whatever it is, the failure is recorded and reported as the step's."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_step("charge", self.charge, max_retries=0)
            ctx.try_step("again", self.charge)

        @run.on_error
        def note(self, event):
            outside.append((event.kind, event.error.name))

        def charge(self):
            raise RetryAfter(pause)

    order = Order.create("one")

    rivet.drive(order)

    assert set(outside) == {("step", "RetryAfter")}
    assert order.history()["charge"].attempts == 1
    assert order.history()["again"].attempts >= 1
