"""CANCEL: a workflow ends where it stands, for good, and undoes nothing unless that is asked for."""

import pytest
from django.db import transaction

from django_rivet import Queue, WorkflowFinishedError, workflow
from django_rivet.testing import advance, drive, isolated_actors
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def trips(outside):
    """A base for trips whose first step owes a handler."""

    class Trips(undoable(outside)):
        class Meta:
            abstract = True

        def begin(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)

        def break_down(self):
            raise OSError("busy")

    return Trips


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_01_before_anything_ran_nothing_ever_runs(outside, rollback):
    """A pending workflow is just cancelled: it has no alarm, takes no more messages, and no later drive starts it."""

    class Trip(trips(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            outside.append("ran")

    trip = Trip.create("one")
    trip.send("answers", "early")

    assert trip.cancel(rollback=rollback)

    assert trip.status == "cancelled"
    assert (trip.wake_at, trip.waiting_for, trip.error) == (None, None, None)
    with pytest.raises(WorkflowFinishedError):
        trip.send("answers", "late")
    advance(3600)
    assert drive(trip) == "cancelled"
    assert outside == []


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_02_a_running_workflow_stops_at_its_next_entry_and_stays_cancelled(outside, rollback):
    """Differs on purpose from the reference, where the running pass writes `running` over it and goes on later.

    The body that runs ends well and its record lands; the next step does not begin.
    """

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            self.begin(ctx)
            ctx.step("hotel", self.book_and_cancel, rollback=self.undo)
            outside.append("code behind the hotel")
            ctx.step("car", self.do, "C-3")

        def book_and_cancel(self):
            assert Trip.get("one").cancel(rollback=rollback)
            return self.do("H-2")

    trip = Trip.create("one")

    assert drive(trip) == "cancelled"

    undone = ["undo H-2", "undo F-1"] if rollback else []
    assert outside == ["do F-1", "do H-2", "code behind the hotel", *undone]
    assert trip.history()["hotel"].status == "completed"
    advance(3600)
    assert drive(trip) == "cancelled"


def test_cancel_02_a_loop_without_entries_stops_at_its_next_turn(outside):
    """Differs on purpose: asking for the next turn is asking for an entry."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days"):
                outside.append(turn.iteration)
                if turn.iteration == 0:
                    turn.step("cancel", self.cancel_it)

        def cancel_it(self):
            Trip.get("one").cancel()

    trip = Trip.create("one")

    assert drive(trip) == "cancelled"
    assert outside == [0]


def test_cancel_02_the_workflow_cannot_swallow_it(outside):
    """Differs on purpose: `except Exception` does not see it, and a `finally` block can run no step."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("cancel", self.cancel_it)
            try:
                ctx.step("hotel", self.do, "H-2")
            except Exception:
                outside.append("swallowed")
            finally:
                ctx.step("clean up", self.do, "clean up")

        def cancel_it(self):
            Trip.get("one").cancel()

    trip = Trip.create("one")

    assert drive(trip) == "cancelled"
    assert outside == []


def test_cancel_02_a_workflow_that_ends_before_it_asks_again_has_ended(outside):
    """Differs on purpose: a request that nobody had a chance to heed does not turn a completed workflow around."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            return ctx.step("last", self.cancel_it)

        def cancel_it(self):
            Trip.get("one").cancel(rollback=True)
            return "home"

    trip = Trip.create("one")

    assert drive(trip) == "completed"
    assert trip.output == "home"
    advance(60)
    assert drive(trip) == "completed"


@pytest.mark.parametrize("wait", ["sleep", "message", "retry"])
@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_waiting_workflow_undoes_only_what_it_is_asked_to(outside, wait, rollback):
    """Whatever it waits for: without `rollback=True` no handler runs, with it all do; the code is not run again."""

    class Trip(trips(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            outside.append("pass")
            self.begin(ctx)
            {
                "sleep": lambda: ctx.sleep("night", 60),
                "message": lambda: ctx.queue.next("answer", ["answers"]),
                "retry": lambda: ctx.step("hotel", self.break_down, retry_backoff_base=60, retry_backoff_max=60),
            }[wait]()

    trip = Trip.create("one")
    assert drive(trip) == "sleeping"

    assert trip.cancel(rollback=rollback)
    assert drive(trip) == "cancelled"

    assert outside == ["pass", "do F-1", *(["undo F-1"] if rollback else [])]
    assert (trip.error, trip.wake_at, trip.waiting_for) == (None, None, None)


def test_cancel_03_without_a_rollback_what_is_owed_stays_owed(outside):
    """The handlers that did not run are on record, so that people can see what a cancellation left behind."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            self.begin(ctx)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)

    trip.cancel()

    assert trip.status == "cancelled"
    assert trip.history()["flight"].rollback.status == "owed"


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_failed_workflow_is_just_cancelled(outside, rollback):
    """It was rolled back when it failed: no handler runs twice, and `recover()` is over."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            self.begin(ctx)
            ctx.step("hotel", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "failed"

    assert trip.cancel(rollback=rollback)
    assert drive(trip) == "cancelled"

    assert outside == ["do F-1", "undo F-1"]
    assert not trip.recover()


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_diverged_workflow_can_be_cancelled_and_rolled_back_from_its_records(outside, rollback):
    """It needs no code that fits: handlers are found by name, and no workflow code runs."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            self.begin(ctx)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)
    advance(61)

    with isolated_actors():

        class TripOfToday(trips(outside)):
            class Meta:
                name = "tests.Trip"

            @workflow
            def run(self, ctx):
                outside.append("pass")
                ctx.step("train", self.do, "T-1")

        assert drive(trip) == "diverged"
        assert trip.cancel(rollback=rollback)
        assert drive(trip) == "cancelled"

    assert outside == ["do F-1", "pass", *(["undo F-1"] if rollback else [])]


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_04_a_completed_workflow_is_left_alone(outside, rollback):
    """Differs on purpose from the reference, which rewrites its state: completed is final, and it says False."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            self.begin(ctx)
            return "home"

    trip = Trip.create("one")
    drive(trip)

    assert not trip.cancel(rollback=rollback)

    assert drive(trip) == "completed"
    assert (trip.output, outside) == ("home", ["do F-1"])


@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_04_a_cancelled_workflow_cannot_be_cancelled_again(outside, rollback):
    """Differs on purpose: cancelled is final as well; what it owed is not undone by a second call."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            self.begin(ctx)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)
    trip.cancel()

    assert not trip.cancel(rollback=rollback)

    assert drive(trip) == "cancelled"
    assert outside == ["do F-1"]


def test_cancel_04_obeys_the_callers_transaction(outside):
    """A cancellation whose transaction was rolled back has not happened."""

    class Trip(trips(outside)):
        @workflow
        def run(self, ctx):
            self.begin(ctx)
            ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)

    with transaction.atomic():
        trip.cancel(rollback=True)
        transaction.set_rollback(True)

    assert drive(trip) == "sleeping"
    advance(61)
    assert drive(trip) == "completed"
