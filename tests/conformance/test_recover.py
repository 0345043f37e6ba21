"""RECOVER: fresh attempts after a failure, for what failed the workflow and for nothing else."""

import pytest
from django.db import transaction

from django_rivet import CriticalError, Queue, QueueTimeoutError, workflow
from django_rivet.testing import advance, drive, now
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def booking(outside, working):
    """A base for actors whose steps fail unless their name is in ``working``."""

    class Booking(undoable(outside)):
        class Meta:
            abstract = True

        def try_to(self, thing):
            outside.append(f"try {thing}")
            if thing not in working:
                raise CriticalError(f"{thing} is closed")
            return thing

    return Booking


def test_recover_01_an_exhausted_step_gets_fresh_attempts(outside):
    """All its retries are before it again, and what completed before it is not repeated."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.do, "F-1")
            return ctx.step("hotel", self.ask, max_retries=1)

        def ask(self):
            outside.append("ask")
            if outside.count("ask") < 4:
                raise OSError("busy")
            return "room"

    trip = Trip.create("one")

    drive(trip)
    advance(5)
    assert drive(trip) == "failed"
    assert trip.history()["hotel"].attempts == 2

    assert trip.recover()
    drive(trip)
    advance(5)
    assert drive(trip) == "completed"

    assert outside == ["do F-1", "ask", "ask", "ask", "ask"]
    assert (trip.output, trip.error) == ("room", None)
    assert trip.history()["hotel"].attempts == 2


def test_recover_02_nothing_but_a_failure_can_be_recovered_from(outside):
    """Differs on purpose only for `rollback_failed`; in every other status it does nothing and says so."""

    class Trip(undoable(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.queue.next("answer", ["answers"])

    pending, sleeping, cancelled, completed = (Trip.create(key) for key in ("p", "s", "x", "c"))
    completed.send("answers")
    for trip in (sleeping, cancelled, completed):
        drive(trip)
    cancelled.cancel()

    for trip, status in ((pending, "pending"), (sleeping, "sleeping"), (cancelled, "cancelled")):
        assert not trip.recover()
        assert trip.status == status
    assert not completed.recover()
    assert drive(completed) == "completed"


def test_recover_02_a_rollback_under_way_is_left_alone(outside):
    """A handler that waits for its retry has attempts left, so there is nothing to recover from."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.never)
            ctx.step("hotel", self.fail)

        def never(self, rollback, thing):
            raise OSError("busy")

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    due = trip.wake_at

    assert not trip.recover()
    assert (trip.status, trip.wake_at) == ("rolling_back", due)


def test_recover_03_the_workflow_is_due_at_once_and_its_error_is_gone(outside):
    """Status `sleeping`, due now, no error; what was is readable as the earlier generation."""

    class Trip(booking(outside, [])):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.do, "F-1")
            ctx.step("hotel", self.try_to, "hotel")

    trip = Trip.create("one")
    drive(trip)
    before = str(trip.history())

    assert trip.recover()

    assert (trip.status, trip.error) == ("sleeping", None)
    assert trip.wake_at <= now()
    assert str(trip.history()).splitlines() == ["flight  step  completed  1 attempt", "hotel  step  pending"]
    assert str(trip.history(generation=0)) == before


def test_recover_03_obeys_the_callers_transaction(outside):
    """Rolled back, nothing happened."""

    class Trip(booking(outside, [])):
        @workflow
        def run(self, ctx):
            ctx.step("hotel", self.try_to, "hotel")

    trip = Trip.create("one")
    drive(trip)

    with transaction.atomic():
        trip.recover()
        transaction.set_rollback(True)

    assert drive(trip) == "failed"
    assert outside == ["try hotel"]
    assert trip.history()["hotel"].status == "failed"


def test_recover_03_a_wait_that_timed_out_gets_a_new_deadline(outside):
    """Differs on purpose: the entry that the error came out of may be a receive; it waits again, in full."""

    class Trip(undoable(outside)):
        answers = Queue(str)

        @workflow
        def run(self, ctx):
            return ctx.queue.next("answer", ["answers"], timeout=60).body

    trip = Trip.create("one")
    drive(trip)
    advance(61)
    assert drive(trip) == "failed"
    assert trip.error.name == QueueTimeoutError.__name__

    trip.recover()
    assert drive(trip) == "sleeping"
    assert 55 < (trip.wake_at - now()).total_seconds() <= 60
    trip.send("answers", "yes")
    assert drive(trip) == "completed"

    assert trip.output == "yes"


def test_recover_03_a_failed_loop_goes_on_in_the_iteration_that_failed(outside):
    """Differs on purpose: earlier iterations are not entered again, and the loop's state is that of the failed one."""
    working = [0, 1]

    class Trip(booking(outside, working)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days", state=100):
                outside.append(f"day {turn.iteration}, state {turn.state}")
                turn.step("pay", self.try_to, turn.iteration)
                turn.state -= 10
                if turn.iteration == 3:
                    break

    trip = Trip.create("one")
    assert drive(trip) == "failed"
    working += [2, 3]
    outside.clear()

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["day 2, state 80", "try 2", "day 3, state 70", "try 3"]
    assert trip.history()["days"].status == "completed"
