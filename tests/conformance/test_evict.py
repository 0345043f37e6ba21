"""EVICT: a worker that shuts down hands its actors over, each at its next entry or turn."""

import time
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest

from django_rivet import Actor, Queue, current_step, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime import celery_tasks, shutdown
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker, this_worker
from django_rivet.testing import advance, drive, now
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


@pytest.fixture
def told_to_stop():
    """This process's workers are told to stop, as by SIGTERM, where the test asks for it; afterwards they are not."""
    yield shutdown.request
    shutdown.withdraw()


def drive_by_a_worker_that_stops(actor, evicted, **options):
    """One drive by a worker that is told to stop as soon as ``evicted()`` is true."""
    return drive_once(uuid.UUID(actor.id), replace(in_process_worker("stopping"), evicted=evicted, **options))


def test_evict_01_a_workflow_that_notices_and_returns_completes(outside):
    """Nothing forces it out between two entries: what it returns then is its output."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            outside.append(ctx.is_evicted())
            ctx.step("charge", outside.append, "charge")
            outside.append(ctx.is_evicted())
            return "left early" if ctx.is_evicted() else ctx.step("ship", outside.append, "ship")

    order = Order.create("one")

    assert drive_by_a_worker_that_stops(order, lambda: "charge" in outside)

    assert outside == [False, "charge", True]
    assert (order.status, order.output) == ("completed", "left early")


def test_evict_01_sigterm_is_what_a_workflow_notices(outside, told_to_stop):
    """``is_evicted()`` of a real worker is true as soon as that is told to stop, in the workflow and in bodies."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            outside.append(ctx.is_evicted())
            ctx.step("charge", self.charge)
            outside.append(ctx.is_evicted())

        def charge(self):
            told_to_stop()
            outside.append(current_step().is_evicted())

    order = Order.create("one")

    assert drive_once(uuid.UUID(order.id), this_worker())

    assert outside == [False, True, True]
    assert order.status == "completed"


@pytest.mark.parametrize("atomic", [True, False])
def test_evict_02_in_the_middle_of_a_step_its_body_ends_and_is_recorded(outside, atomic):
    """The next entry ends the drive; the actor is due at once, it counts as no takeover, and another goes on.

    Differs on purpose from the reference, whose result is ``running``: here nobody runs it, so it is ``sleeping``.
    """

    class Order(Actor):
        @workflow
        def run(self, ctx):
            outside.append(("charged", ctx.step("charge", self.charge, atomic=atomic)))
            ctx.step("ship", outside.append, "ship")

        def charge(self):
            outside.append("told to stop")
            return "ch-1"

    order = Order.create("one")

    assert drive_by_a_worker_that_stops(order, lambda: "told to stop" in outside)

    assert outside == ["told to stop", ("charged", "ch-1")]
    assert (order.history()["charge"].status, order.history()["charge"].output) == ("completed", "ch-1")
    assert order.status == "sleeping"
    assert order.wake_at <= now()
    run = WorkflowRun.objects.get(pk=order.id)
    assert (run.holder, run.takeovers, run.cut_off) == (None, 0, False)
    assert drive(order) == "completed"
    assert outside[2:] == [("charged", "ch-1"), "ship"]


VERBS = {
    "step": lambda ctx, do: ctx.step("next", do),
    "try_step": lambda ctx, do: ctx.try_step("next", do),
    "try_block": lambda ctx, do: ctx.try_block("next", lambda block: do()),
    "scoped block": lambda ctx, do: ctx.try_block("next", lambda block: do(), rollback=True),
    "loop": lambda ctx, do: [do() for turn in ctx.loop("next") if turn.iteration == 0 and turn.state is None],
    "loop function": lambda ctx, do: ctx.loop("next", lambda turn, state: do()),
    "checkpoint": lambda ctx, do: (ctx.rollback_checkpoint("next"), do()),
    "sleep": lambda ctx, do: (ctx.sleep("next", 0), do()),
    "sleep_until": lambda ctx, do: (ctx.sleep_until("next", now()), do()),
    "now": lambda ctx, do: (ctx.now("next"), do()),
    "uuid": lambda ctx, do: (ctx.uuid("next"), do()),
    "random": lambda ctx, do: (ctx.random("next"), do()),
    "receive": lambda ctx, do: (ctx.queue.next("next"), do()),
    "receive many": lambda ctx, do: (ctx.queue.next_batch("next"), do()),
}


@pytest.mark.parametrize("verb", VERBS)
def test_evict_03_is_noticed_at_the_start_of_every_entry(outside, verb):
    """Whatever the workflow asks for next: it does not get it from this worker, and nothing of it is on record."""

    class Order(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("charge", outside.append, "charge")
            try:
                VERBS[verb](ctx, lambda: outside.append("went on"))
            except Exception:
                outside.append("caught")

    order = Order.create("one")
    order.send("orders", "o-1")

    assert drive_by_a_worker_that_stops(order, lambda: "charge" in outside)

    assert outside == ["charge"]
    assert [entry.path for entry in order.history()] == ["charge"]
    assert order.status == "sleeping"
    assert order.wake_at <= now()


@pytest.mark.parametrize("form", ["iterator", "function"])
def test_evict_03_is_noticed_at_the_next_turn_of_a_loop(outside, form):
    """Also where an iteration has no entry that would notice it."""

    class Counter(Actor):
        @workflow
        def run(self, ctx):
            if form == "function":
                return ctx.loop("turns", lambda turn, state: self.turn(turn))
            for turn in ctx.loop("turns"):
                self.turn(turn)
            return None

        def turn(self, turn):
            if turn.iteration == 100:
                raise RuntimeError("nobody stopped this")
            outside.append(turn.iteration)

    counter = Counter.create("one")

    assert drive_by_a_worker_that_stops(counter, lambda: outside == [0, 1])

    assert outside == [0, 1]
    assert counter.status == "sleeping"


@pytest.fixture
def short_waits(monkeypatch, outside):
    """Waits in memory are written into ``outside`` when they begin."""

    def sleep(left):
        outside.append("waited")
        time.sleep(left)

    monkeypatch.setattr("django_rivet.runtime.host.time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))


def test_evict_03_is_noticed_in_a_short_sleep(outside, short_waits):
    """EVICT-04: a wait that a worker spends in memory is left as it stands: sleeping, its stored time unchanged."""

    class Napper(Actor):
        @workflow
        def run(self, ctx):
            ctx.sleep("nap", 0.09)
            ctx.step("after", outside.append, "after")

    napper = Napper.create("one")

    assert drive_by_a_worker_that_stops(napper, lambda: "waited" in outside, may_pause=True)

    assert outside == ["waited"]
    assert napper.status == "sleeping"
    assert napper.wake_at == napper.history()["nap"].due_at
    advance(0.1)
    assert drive(napper) == "completed"
    assert outside == ["waited", "after"]


def test_evict_03_is_noticed_before_a_short_wait_for_a_retry(outside, short_waits):
    """What is left to wait for is left to others: this worker does not even begin."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=0.04, retry_jitter=0)

        def charge(self):
            outside.append("charge")
            if outside == ["charge"]:
                raise ConnectionError("the provider is away")

    order = Order.create("one")

    assert drive_by_a_worker_that_stops(order, lambda: "charge" in outside, may_pause=True)

    assert outside == ["charge"]
    assert order.status == "sleeping"
    assert order.wake_at == order.history()["charge"].due_at
    advance(0.1)
    assert drive(order) == "completed"


def test_evict_03_a_rollback_handler_that_notices_and_gives_way_has_not_failed(outside):
    """Its attempt is not charged, and the next worker runs it again."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.give_way, rollback_max_retries=0)
            ctx.step("car", self.fail)

        def give_way(self, rollback, flight):
            outside.append("undoing")
            if current_step().is_evicted():
                raise InterruptedError("the worker stops")
            self.undo(rollback, flight)

    trip = Trip.create("one")

    assert drive_by_a_worker_that_stops(trip, lambda: "undoing" in outside)

    assert trip.status == "rolling_back"
    assert (trip.history()["flight"].rollback.status, trip.history()["flight"].rollback.attempts) == ("owed", 0)
    assert drive(trip) == "failed"
    assert outside == ["do F-1", "undoing", "undoing", "undo F-1"]


@pytest.mark.parametrize("mark", ["failing", "undo H-2"], ids=["before the first", "after the first"])
def test_evict_03_is_noticed_before_each_handler_of_a_block(outside, mark):
    """Its failure is on record; the rest of its rollback is another worker's, and then the workflow goes on."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            return ctx.try_block("trip", self.trip, rollback=True).failure.error.message

        def trip(self, block):
            block.rollback_checkpoint("trip")
            block.step("flight", self.do, "F-1", rollback=self.undo)
            block.step("hotel", self.do, "H-2", rollback=self.undo)
            block.step("car", self.note_and_fail)

        def note_and_fail(self):
            outside.append("failing")
            self.fail("no car left")

    trip = Trip.create("one")

    assert drive_by_a_worker_that_stops(trip, lambda: mark in outside)

    assert outside[-1] == mark
    assert trip.status == "rolling_back"
    assert trip.wake_at <= now()
    assert drive(trip) == "completed"
    assert outside == ["do F-1", "do H-2", "failing", "undo H-2", "undo F-1"]
    assert trip.output == "no car left"


def test_evict_04_a_sleeping_actor_is_left_alone(outside, told_to_stop):
    """A worker on its way out, with a hint in its hands, claims nothing: status and time to wake stay."""

    class Sleeper(Actor):
        @workflow
        def run(self, ctx):
            ctx.sleep("night", 60)
            ctx.step("after", outside.append, "after")

    sleeper = Sleeper.create("one")
    drive(sleeper)
    before = WorkflowRun.objects.values().get(pk=sleeper.id)
    told_to_stop()

    celery_tasks.drive(sleeper.id)
    advance(60)
    celery_tasks.drive(sleeper.id)

    assert WorkflowRun.objects.values().get(pk=sleeper.id) == before
    assert outside == []
    shutdown.withdraw()
    celery_tasks.drive(sleeper.id)
    assert outside == ["after"]
