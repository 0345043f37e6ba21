"""ONERROR: what the error hook is told, and how often."""

from datetime import timedelta

import pytest

from django_rivet import CriticalError, Queue, workflow
from django_rivet.testing import SimulatedCrash, advance, drive, now
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def hooked(outside):
    """A base whose hook notes every event; its workflow is overridden, the hook is inherited."""

    class Hooked(undoable(outside)):
        class Meta:
            abstract = True

        @workflow
        def run(self, ctx):
            raise NotImplementedError

        @run.on_error
        def note(self, event):
            outside.append(event)

        def break_down(self, message="busy"):
            raise OSError(message)

    return Hooked


def told(outside):
    """Kind of each event, the step it is about (if any), and the error's name."""
    return [(e.kind, getattr(e, "step_name", None), e.error.name) for e in outside if not isinstance(e, str)]


def test_onerror_01_a_failure_that_is_retried_is_a_step_event(outside):
    """It tells the attempt, what is left, and when the next one is due; the retry that succeeds tells nothing."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.book, retry_backoff_base=10, retry_jitter=0)

        def book(self):
            if not outside:
                raise OSError("busy")

    trip = Trip.create("one")
    before = now()

    drive(trip)
    advance(21)
    assert drive(trip) == "completed"

    (event,) = outside
    assert (event.kind, event.workflow_id, event.step_name) == ("step", trip.id, "flight")
    assert (event.attempt, event.max_retries, event.remaining_retries, event.will_retry) == (1, 3, 3, True)
    assert event.retry_delay == 20
    assert timedelta(seconds=20) <= event.retry_at - before < timedelta(seconds=25)
    assert (event.error.name, event.error.message) == ("OSError", "busy")


def test_onerror_01_each_failed_attempt_is_told_once(outside):
    """Attempts count from 1, the retries that remain go down."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.break_down, max_retries=2)

    trip = Trip.create("one")

    while drive(trip) == "sleeping":
        advance(5)

    assert [(e.attempt, e.remaining_retries, e.will_retry) for e in outside] == [
        (1, 2, True),
        (2, 1, True),
        (3, 0, False),
    ]


@pytest.mark.parametrize(
    ("body", "error"), [("critical", "CriticalError"), ("hang", "StepTimeoutError"), ("exhaust", "OSError")]
)
def test_onerror_02_a_final_failure_is_a_step_event_with_the_original_error(outside, body, error):
    """It will not be retried, so it tells no delay; the error is the body's own and not the engine's wrapping."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", getattr(self, body), timeout=0.05, max_retries=0)

        def critical(self):
            raise CriticalError("full")

        def hang(self):
            while True:
                pass

        def exhaust(self):
            raise OSError("busy")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    (event,) = outside
    assert (event.kind, event.step_name, event.error.name) == ("step", "flight", error)
    assert (event.will_retry, event.retry_delay, event.retry_at) == (False, None, None)


def test_onerror_03_an_error_outside_steps_is_a_workflow_event(outside):
    """It tells the workflow and the error, and nothing about steps."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            raise KeyError("price")

    trip = Trip.create("one")

    drive(trip)

    (event,) = outside
    assert event.as_dict() == {
        "kind": "workflow",
        "workflow_id": trip.id,
        "error": {"name": "KeyError", "message": "'price'", "stack": event.error.stack, "metadata": {}},
    }


def test_onerror_04_each_failing_attempt_of_a_handler_is_a_rollback_event(outside):
    """It tells the step, the attempt, and whether it will be tried again."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.never, rollback_max_retries=1)
            ctx.step("hotel", self.fail)

        def never(self, rollback, thing):
            raise OSError("busy")

    trip = Trip.create("one")

    drive(trip)
    advance(5)
    assert drive(trip) == "rollback_failed"

    events = [event for event in outside if event != "do F-1"][1:]
    assert [(e.kind, e.step_name, e.attempt, e.will_retry, str(e.error)) for e in events] == [
        ("rollback", "flight", 1, True, "OSError: busy"),
        ("rollback", "flight", 2, False, "OSError: busy"),
    ]


def test_onerror_05_remaining_retries_do_not_heed_that_none_will_come(outside):
    """What remains is a matter of numbers: a critical failure at the first attempt of four still reports three."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail, max_retries=3)
            ctx.try_step("hotel", self.fail, max_retries=0)

    drive(Trip.create("one"))

    assert [(e.attempt, e.max_retries, e.remaining_retries, e.will_retry) for e in outside] == [
        (1, 3, 3, False),
        (1, 0, 0, False),
    ]


def test_onerror_12_the_error_is_told_with_its_own_simple_values(outside):
    """Name, message, stack, and those attributes of the error that are strings, numbers, booleans or None."""

    class RefusedError(CriticalError):
        def __init__(self):
            super().__init__("refused by the bank")
            self.reason, self.amount, self.final, self.hint = "limit", 12.5, True, None
            self.response, self._secret = object(), "4711"

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("pay", self.pay)

        def pay(self):
            raise RefusedError

    drive(Trip.create("one"))

    error = outside[0].error
    assert (error.name, error.message) == ("RefusedError", "refused by the bank")
    assert "in pay" in error.stack
    assert error.metadata == {"reason": "limit", "amount": 12.5, "final": True, "hint": None}


def test_onerror_13_waits_evictions_and_cancellations_are_no_errors(outside):
    """A hook hears nothing of sleeps, message waits, time-outs of a batch, dead workers and cancellations."""

    class Trip(hooked(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, rollback=self.undo)
            ctx.sleep("night", 10)
            ctx.queue.next_batch("batch", ["answers"], timeout=10)
            ctx.queue.next("answer", ["answers"])

        def book(self):
            outside.append("book")
            if outside.count("book") == 1:
                raise SimulatedCrash

    trip = Trip.create("one")

    with pytest.raises(SimulatedCrash):
        drive(trip)
    for _ in range(3):
        assert drive(trip) == "sleeping"
        advance(11)
    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert told(outside) == []


@pytest.mark.parametrize(
    ("mistake", "error"),
    [("no_checkpoint", "RollbackCheckpointError"), ("two_at_once", "EntryInProgressError")],
)
def test_onerror_14_a_mistake_in_the_workflow_is_a_workflow_event(outside, mistake, error):
    """Usage errors are nobody's step."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            getattr(self, mistake)(ctx)

        def no_checkpoint(self, ctx):
            ctx.step("flight", self.do, "F-1", rollback=self.undo)

        def two_at_once(self, ctx):
            ctx.try_block("flight", lambda block: ctx.step("seat", self.do, "1A"))

    assert drive(Trip.create("one")) == "failed"

    assert told(outside) == [("workflow", None, error)]
