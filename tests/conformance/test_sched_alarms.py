"""SCHED-01 to 05: each workflow has one time at which it goes on by itself."""

import uuid
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_rivet import Actor, CriticalError, Event, Queue, action, workflow
from django_rivet.conf import get_settings
from django_rivet.models import WorkflowRun
from django_rivet.runtime.host import INLINE_WAIT_SECONDS
from django_rivet.store.runs import claim, due_actors
from django_rivet.testing import advance, drive, now

pytestmark = pytest.mark.django_db


@pytest.fixture
def sleeper():
    """An actor class that sleeps for the seconds in its input, one after another."""

    class Sleeper(Actor):
        class State:
            naps: list[float] = []
            touched: int = 0

        letters = Queue(str)
        touched = Event(int)

        def create_state(self, input):
            return {"naps": input}

        @workflow
        def run(self, ctx):
            for n, seconds in enumerate(ctx.step("naps", lambda: self.state.naps)):
                ctx.sleep(f"nap {n}", seconds)

        @action
        def touch(self) -> None:
            self.state.touched += 1
            self.touched.broadcast(self.state.touched)

    return Sleeper


def is_due(*handles):
    """Of these, the keys of those that a worker should drive now."""
    due = {each.actor_id for each in due_actors(100)}
    return [handle.key for handle in handles if uuid.UUID(handle.id) in due]


def test_sched_01_each_workflow_has_its_own_time(sleeper):
    """It is set by a wait, readable, moved by the next one, and gone when nothing is waited for."""
    early, late = sleeper.create("early", [60, 600]), sleeper.create("late", [120])

    before = now()
    drive()
    after = now()
    for handle, seconds in (early, 60), (late, 120):
        assert before <= handle.wake_at - timedelta(seconds=seconds) <= after

    advance(61)
    untouched = late.wake_at
    drive(early)
    assert now() + timedelta(seconds=590) < early.wake_at <= now() + timedelta(seconds=600)
    assert late.wake_at == untouched

    advance(600)
    drive()
    assert (early.wake_at, late.wake_at) == (None, None)


def test_sched_01_the_last_one_written_holds():
    """A wait with a deadline, then one without, then one with another: the time is always that of the last."""

    class Waiter(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.queue.next("first", timeout=60)
            ctx.queue.next("second")
            ctx.queue.next("third", timeout=600)

    waiter = Waiter.create("one")
    drive(waiter)
    first = waiter.wake_at
    waiter.send("letters", "a")
    drive(waiter)
    second = waiter.wake_at
    waiter.send("letters", "b")
    drive(waiter)

    assert first < now() + timedelta(seconds=61)
    assert second is None
    assert waiter.wake_at > now() + timedelta(seconds=590)


def test_sched_02_what_is_due_is_listed_and_what_is_not_is_not(sleeper):
    """By the engine's clock, to the moment; nothing is due that has been claimed."""
    early, late = sleeper.create("early", [60]), sleeper.create("late", [600])
    assert is_due(early, late) == ["early", "late"]
    drive()
    assert is_due(early, late) == []

    advance((early.wake_at - now()).total_seconds() - 5)
    assert is_due(early, late) == []
    advance(5)
    assert is_due(early, late) == ["early"]
    claimed = claim(uuid.UUID(early.id), "a worker", 10)
    assert is_due(early, late) == []
    assert claimed is not None
    advance(600)
    assert is_due(early, late) == ["early", "late"], "the lease is over, and the other's time has come"


def test_sched_02_a_message_makes_due_who_waits_for_it(sleeper):
    """And nobody else: who sleeps is not woken, and a delayed message counts when its time has come."""

    class Reader(Actor):
        letters = Queue(str)
        bills = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.queue.next("letter", names=["letters"])

    asleep, at_once, later, other = (
        sleeper.create("asleep", [600]),
        Reader.create("at once"),
        Reader.create("later"),
        Reader.create("another queue"),
    )
    drive()
    asleep.send("letters", "hello")
    at_once.send("letters", "hello")
    later.send("letters", "hello", delay=60)
    other.send("bills", "hello")

    assert is_due(asleep, at_once, later, other) == ["at once"]
    advance(60)
    assert is_due(asleep, at_once, later, other) == ["at once", "later"]


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan"), True, "1"])
def test_sched_03_the_poll_interval_is_positive_and_readable(wrong):
    """A tenth of a second in memory, and the sweeper's as configured: what is none is refused by name."""
    assert INLINE_WAIT_SECONDS == 0.1
    with override_settings(RIVET={"SWEEP_SECONDS": 0.5}):
        assert get_settings().SWEEP_SECONDS == 0.5
    with override_settings(RIVET={"SWEEP_SECONDS": wrong}), pytest.raises(ImproperlyConfigured, match="SWEEP_SECONDS"):
        get_settings()


class DeclinedError(CriticalError):
    pass


def ending(outside):
    """An actor class whose one step was tried before, so that a time to go on is stored; its key says how it ends."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", int, rollback=self.release, rollback_max_retries=0)
            ctx.step("charge", self.charge, atomic=False, retry_backoff_base=30, retry_jitter=0)
            ctx.sleep("night", 60)

        def charge(self):
            outside.append("charge")
            if len(outside) == 1:
                raise ConnectionError("away")
            if self.key not in ("completed", "cancelled"):
                raise DeclinedError

        def release(self, rollback, output):
            if self.key == "rollback_failed":
                raise OSError("cannot be undone")

    return Order


@pytest.mark.parametrize("end", ["completed", "failed", "rollback_failed", "cancelled"])
def test_sched_04_every_end_clears_the_time(outside, end):
    """Differs on purpose from the reference, where only completion does: nothing is ever due again by itself."""
    order = ending(outside).create(end)
    drive(order)
    assert order.wake_at is not None
    advance(61)
    drive(order)
    if end == "completed":
        advance(61)
        drive(order)
    elif end == "cancelled":
        assert order.wake_at is not None
        order.cancel()

    assert order.status == end
    run = WorkflowRun.objects.get(pk=order.id)
    assert (order.wake_at, run.due_at, run.waiting, run.holder) == (None, None, None, None)
    advance(10**6)
    assert is_due(order) == []


def test_sched_05_nothing_else_moves_a_workflow_s_time(sleeper):
    """Differs on purpose from the reference, where all that is planned for an actor shares one alarm.

    Messages now and later, actions, events, and a drive that comes for nothing leave the time as it is.
    """
    one = sleeper.create("one", [60])
    drive(one)
    planned = one.wake_at

    one.send("letters", "now")
    one.send("letters", "soon", delay=10)
    one.send("letters", "late", delay=600)
    one.touch()
    drive(one)
    assert one.wake_at == planned
    advance(20)
    drive(one)
    assert one.wake_at == planned
    assert one.status == "sleeping"

    advance(41)
    assert drive(one) == "completed"
