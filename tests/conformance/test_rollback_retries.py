"""ROLLBACK: a handler that fails is tried again by rules of its own; one that is given up waits for people."""

from dataclasses import replace
from datetime import timedelta

import pytest

from django_rivet import CriticalError, RetryAfter, RollbackError, workflow
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import SimulatedCrash, advance, drive, now
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def stopping_once(outside, mark):
    """A worker that shuts down as soon as ``mark`` is seen outside."""
    return replace(in_process_worker("stopping"), evicted=lambda: mark in outside)


def test_rollback_12_a_handler_that_raises_is_retried(outside):
    """Differs on purpose from the reference, where nothing runs it again by itself: it has retries of its own.

    Older handlers wait for it, and the actor says what it waits for.
    """

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_at_the_third_try)
            ctx.step("car", self.fail, "no car left")

        def undo_at_the_third_try(self, rollback, thing):
            outside.append(f"attempt {rollback.attempt}")
            if rollback.attempt < 3:
                raise OSError("hotel does not answer")
            self.undo(rollback, thing)

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert outside[2:] == ["attempt 1"]
    record = trip.history()["hotel"].rollback
    assert (record.status, record.attempts, str(record.error)) == ("owed", 1, "OSError: hotel does not answer")
    assert str(trip.error) == "CriticalError: no car left"

    advance(1)
    assert drive(trip) == "rolling_back"
    advance(1)
    assert drive(trip) == "failed"

    assert outside[2:] == ["attempt 1", "attempt 2", "attempt 3", "undo H-2", "undo F-1"]
    record = trip.history()["hotel"].rollback
    assert (record.status, record.attempts, record.error) == ("completed", 3, None)


def test_rollback_13_a_handler_out_of_attempts_leaves_the_actor_in_rollback_failed(outside):
    """Differs on purpose: retries are counted, then people are asked, and `recover()` goes on from there.

    What is not undone yet is listed, older handlers included.
    """
    hotel_answers = []

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_if_hotel_answers, rollback_max_retries=2)
            ctx.step("car", self.do, "C-3", rollback=self.undo)
            ctx.step("insurance", self.fail, "no cover")

        def undo_if_hotel_answers(self, rollback, thing):
            outside.append(f"attempt {rollback.attempt}")
            if not hotel_answers:
                raise OSError("hotel does not answer")
            self.undo(rollback, thing)

    trip = Trip.create("one")

    for _ in range(2):
        assert drive(trip) == "rolling_back"
        advance(1)
    assert drive(trip) == "rollback_failed"

    assert outside[3:] == ["undo C-3", "attempt 1", "attempt 2", "attempt 3"]
    unfinished = {e.name: e.rollback.status for e in trip.history() if e.rollback and e.rollback.ended_at is None}
    assert unfinished == {"flight": "owed"}
    assert trip.history()["hotel"].rollback.status == "failed"
    assert str(trip.error) == "CriticalError: no cover"
    assert trip.wake_at is None

    hotel_answers.append("yes")
    assert drive(trip) == "rollback_failed", "nothing happens by itself"
    assert trip.recover()
    assert drive(trip) == "failed"

    assert outside[7:] == ["attempt 1", "undo H-2", "undo F-1"]
    assert str(trip.error) == "CriticalError: no cover"


def test_rollback_13_retries_of_a_handler_back_off_by_the_steps_own_policy(outside):
    """Differs on purpose: where nothing else is said, a handler is retried as often and as late as its step."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step(
                "flight",
                self.do,
                "F-1",
                rollback=self.never,
                max_retries=3,
                retry_backoff_base=10,
                retry_backoff_max=60,
                retry_jitter=0,
            )
            ctx.step("hotel", self.fail)

        def never(self, rollback, thing):
            outside.append(rollback.attempt)
            raise OSError("busy")

    trip = Trip.create("one")
    pauses = []

    while drive(trip) == "rolling_back":
        pauses.append(round((trip.wake_at - now()).total_seconds()))
        advance(pauses[-1] - 2)
        assert drive(trip) == "rolling_back"
        assert outside[-1] == len(pauses), "no attempt before it is due"
        advance(3)

    assert pauses == [20, 40, 60]
    assert trip.status == "rollback_failed"
    assert outside[1:] == [1, 2, 3, 4]


def test_rollback_13_a_handlers_own_options_win(outside):
    """Differs on purpose: `rollback_max_retries`, `rollback_backoff_base` and `rollback_backoff_max` are its own."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step(
                "flight",
                self.do,
                "F-1",
                rollback=self.never,
                max_retries=0,
                retry_jitter=0,
                rollback_max_retries=2,
                rollback_backoff_base=timedelta(seconds=100),
                rollback_backoff_max=300,
            )
            ctx.step("hotel", self.fail)

        def never(self, rollback, thing):
            raise OSError("busy")

    trip = Trip.create("one")
    pauses = []

    while drive(trip) == "rolling_back":
        pauses.append(round((trip.wake_at - now()).total_seconds()))
        advance(pauses[-1] + 1)

    assert pauses == [200, 300]
    assert trip.history()["flight"].rollback.attempts == 3


def test_rollback_13_a_handler_over_its_time_limit_is_tried_again(outside):
    """Differs on purpose: handlers have a time limit, and one that hung once may get through the next time."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.hang_once, rollback_timeout=0.05)
            ctx.step("hotel", self.fail)

        def hang_once(self, rollback, thing):
            while rollback.attempt == 1:
                pass
            self.undo(rollback, thing)

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert trip.history()["flight"].rollback.error.name == "StepTimeoutError"
    advance(1)
    assert drive(trip) == "failed"

    assert outside == ["do F-1", "undo F-1"]


@pytest.mark.parametrize("error", [CriticalError, RollbackError])
def test_rollback_13_a_handler_that_forbids_retries_is_given_up_at_once(outside, error):
    """Differs on purpose: `CriticalError` and `RollbackError` in a handler ask for people without a retry."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.refuse)
            ctx.step("hotel", self.fail)

        def refuse(self, rollback, thing):
            raise error("the ticket is used")

    trip = Trip.create("one")

    assert drive(trip) == "rollback_failed"

    record = trip.history()["flight"].rollback
    assert (record.status, record.attempts, record.error.name) == ("failed", 1, error.__name__)


def test_rollback_13_a_handler_says_itself_when_to_try_again(outside):
    """Differs on purpose: `RetryAfter` in a handler sets its pause."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.later)
            ctx.step("hotel", self.fail)

        def later(self, rollback, thing):
            if rollback.attempt == 1:
                raise RetryAfter(500)
            self.undo(rollback, thing)

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert 495 < (trip.wake_at - now()).total_seconds() <= 500
    advance(501)

    assert drive(trip) == "failed"
    assert outside == ["do F-1", "undo F-1"]


def test_rollback_13_a_handler_that_kills_its_workers_is_stopped(outside, settings):
    """Differs on purpose: a handler at which one worker after another dies ends in `rollback_failed`."""
    settings.RIVET = {"MAX_TAKEOVERS": 2}

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.kill)
            ctx.step("hotel", self.fail)

        def kill(self, rollback, thing):
            outside.append("killed")
            raise SimulatedCrash

    trip = Trip.create("one")

    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            drive(trip)
    assert drive(trip) == "rollback_failed"

    assert outside == ["do F-1", "killed", "killed"]
    assert trip.history()["flight"].rollback.error.name == "StepInterruptedError"


def test_rollback_14_the_error_is_the_original_one_however_late_the_rollback_ends(outside):
    """Name, message and the error's own values stay, over retries and over `rollback_failed`."""

    class CarError(CriticalError):
        def __init__(self, size):
            self.size = size
            super().__init__(f"no {size} car left")

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo_at_the_third_try, rollback_max_retries=1)
            raise CarError("small")

        def undo_at_the_third_try(self, rollback, thing):
            outside.append("attempt")
            if outside.count("attempt") < 3:
                raise OSError("busy")

    trip = Trip.create("one")
    seen = []

    for _ in range(2):
        seen.append((drive(trip), str(trip.error), trip.error.metadata))
        advance(1)
    trip.recover()
    seen.append((drive(trip), str(trip.error), trip.error.metadata))

    error = ("CarError: no small car left", {"size": "small"})
    assert seen == [("rolling_back", *error), ("rollback_failed", *error), ("failed", *error)]
