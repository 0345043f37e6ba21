"""HANDLE: `wake()` has a worker look at an actor now, and moves no due time."""

import pytest
from django.db import transaction

from django_rivet import Queue, workflow
from django_rivet.testing import advance, drive, isolated_actors, now
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def test_handle_02_a_woken_sleep_goes_back_to_sleep_with_its_due_time(outside):
    """It is due at once; the worker finds that the night is not over, and it ends when it would have ended."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.sleep("night", 60)
            ctx.step("breakfast", self.do, "eat")

    trip = Trip.create("one")
    drive(trip)
    due = trip.wake_at

    assert trip.wake()
    assert trip.wake_at <= now()
    assert drive(trip) == "sleeping"

    assert outside == ["pass", "pass"]
    assert trip.wake_at == due
    advance(59)
    assert drive(trip) == "sleeping"
    advance(2)
    assert drive(trip) == "completed"
    assert outside == ["pass", "pass", "pass", "do eat"]


@pytest.mark.parametrize("timeout", [None, 60])
def test_handle_02_a_woken_wait_for_a_message_waits_on(outside, timeout):
    """With the deadline that it had, or with none."""

    class Trip(undoable(outside)):
        answers = Queue(str)

        @workflow
        def run(self, ctx):
            return ctx.queue.next("answer", ["answers"], timeout=timeout).body

    trip = Trip.create("one")
    drive(trip)
    due = trip.wake_at

    assert trip.wake()
    assert drive(trip) == "sleeping"

    assert (trip.wake_at, trip.waiting_for) == (due, ["answers"])
    trip.send("answers", "yes")
    assert drive(trip) == "completed"
    assert trip.output == "yes"


def test_handle_02_a_woken_retry_is_not_made_early(outside):
    """Neither that of a step, nor that of a handler."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            slow = {"retry_backoff_base": 60, "retry_backoff_max": 60}
            ctx.step("flight", self.once, "do", rollback=self.undo_once, **slow)
            ctx.step("hotel", self.fail)

        def once(self, thing):
            outside.append(f"{thing} it")
            if outside.count(f"{thing} it") == 1:
                raise OSError("busy")

        def undo_once(self, rollback, output):
            self.once("undo")

    trip = Trip.create("one")
    drive(trip)
    assert trip.wake()
    assert drive(trip) == "sleeping"
    assert outside == ["do it"]

    advance(67)
    assert drive(trip) == "rolling_back"
    assert trip.wake()
    assert drive(trip) == "rolling_back"
    assert outside == ["do it", "do it", "undo it"]

    advance(67)
    assert drive(trip) == "failed"
    assert outside == ["do it", "do it", "undo it", "undo it"]


def test_handle_02_a_diverged_workflow_is_tried_again_at_once(outside):
    """The code that fits came back: nobody has to wait for the pause to end."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.do, "F-1")
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)
    advance(61)
    with isolated_actors():

        class TripOfToday(undoable(outside)):
            class Meta:
                name = "tests.Trip"

            @workflow
            def run(self, ctx):
                ctx.step("train", self.do, "T-1")

        assert drive(trip) == "diverged"
    assert drive(trip) == "diverged"

    assert trip.wake()

    assert drive(trip) == "completed"
    assert outside == ["do F-1"]


def test_handle_02_while_a_worker_drives_there_is_nothing_to_do(outside):
    """A live workflow needs no alarm, and sets its own when it waits."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.wake_up)
            ctx.sleep("night", 60)

        def wake_up(self):
            outside.append(Trip.get("one").wake())

    trip = Trip.create("one")

    assert drive(trip) == "sleeping"
    assert outside == [True]
    assert trip.wake_at > now()


def test_handle_02_what_stands_still_is_not_woken(outside):
    """A completed, failed or cancelled workflow, a paused one, and an actor without one: nothing changes."""

    class Trip(undoable(outside)):
        ends = Queue(str)

        @workflow
        def run(self, ctx):
            if ctx.queue.next("end", ["ends"]).body == "failed":
                ctx.step("fail", self.fail)

    class Idle(undoable(outside)):
        pass

    done, failed, cancelled, paused = (Trip.create(name) for name in ("done", "failed", "cancelled", "paused"))
    done.send("ends", "completed")
    failed.send("ends", "failed")
    drive()
    cancelled.cancel()
    paused.pause()
    idle = Idle.create("idle")

    assert [each.wake() for each in (done, failed, cancelled, paused, idle)] == [False] * 5

    drive()
    statuses = [each.status for each in (done, failed, cancelled, paused, idle)]
    assert statuses == ["completed", "failed", "cancelled", "paused", "sleeping"]


def test_handle_02_belongs_to_the_callers_transaction(outside):
    """Rolled back, nobody was woken."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)

    with transaction.atomic():
        trip.wake()
        transaction.set_rollback(True)

    drive(trip)
    assert outside == ["pass"]
