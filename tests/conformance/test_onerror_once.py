"""ONERROR: one failure is told once, whatever becomes of it."""

import pytest

from django_rivet import CriticalError, RollbackError, workflow
from django_rivet.testing import advance, drive, isolated_actors
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


@pytest.mark.parametrize("wraps", [False, True])
def test_onerror_06_an_error_that_was_told_as_a_steps_is_told_again_only_where_it_is_wrapped(outside, wraps):
    """The step's own error failing the workflow is one event; another error raised from it is a second one."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("flight", self.fail)
            except CriticalError as error:
                if wraps:
                    raise ValueError("no trip") from error
                raise

    drive(Trip.create("one"))

    wrapped = [("workflow", None, "ValueError")] if wraps else []
    assert told(outside) == [("step", "flight", "CriticalError"), *wrapped]


@pytest.mark.parametrize("error", [OSError, CriticalError, RollbackError])
def test_onerror_07_a_failed_step_is_not_told_again_when_it_is_replayed(outside, error):
    """Later passes over its record raise the same failure and tell nobody."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("flight", self.book, max_retries=0)
            except Exception:
                ctx.sleep("night", 10)
                ctx.sleep("another night", 10)
                raise

        def book(self):
            raise error("full")

    trip = Trip.create("one")

    for _ in range(2):
        assert drive(trip) == "sleeping"
        advance(11)
    assert drive(trip) == "failed"

    assert told(outside) == [("step", "flight", error.__name__)]


def test_onerror_08_a_critical_failure_is_told_once_also_when_it_was_caught(outside):
    """Differs on purpose from the reference, which runs such a step again on each pass, and tells of it again."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail, "full")
            ctx.try_step("hotel", self.hang, timeout=0.05)
            ctx.sleep("night", 10)

        def hang(self):
            outside.append("hanging")
            while True:
                pass

    trip = Trip.create("one")

    drive(trip)
    advance(11)
    assert drive(trip) == "completed"

    assert told(outside) == [("step", "flight", "CriticalError"), ("step", "hotel", "StepTimeoutError")]
    assert outside.count("hanging") == 1


def test_onerror_14_divergence_is_a_workflow_event_and_told_once(outside):
    """A diverged actor is tried again and again; its hook hears of it the first time."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.do, "F-1")
            ctx.sleep("night", 10)

    trip = Trip.create("one")
    drive(trip)

    with isolated_actors():

        class TripOfToday(hooked(outside)):
            class Meta:
                name = "tests.Trip"

            @workflow
            def run(self, ctx):
                ctx.step("train", self.do, "T-1")

        for _ in range(3):
            advance(600)
            assert drive(trip) == "diverged"

    assert told(outside) == [("workflow", None, "HistoryDivergedError")]


@pytest.mark.parametrize("recovers", [False, True])
def test_onerror_15_the_error_that_made_a_rollback_necessary_is_told_once(outside, recovers):
    """Differs on purpose from the reference, which tells nothing of it where the rollback fails or ends later."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            retries = 0 if recovers else 1
            ctx.step("flight", self.do, "F-1", rollback=self.undo_at_the_second_try, rollback_max_retries=retries)
            raise KeyError("price")

        def undo_at_the_second_try(self, rollback, thing):
            outside.append("attempt")
            if outside.count("attempt") == 1:
                raise OSError("busy")

    trip = Trip.create("one")

    drive(trip)
    advance(5)
    if recovers:
        assert trip.status == "rollback_failed"
        trip.recover()
    assert drive(trip) == "failed"

    assert told(outside) == [("workflow", None, "KeyError"), ("rollback", "flight", "OSError")]


def test_onerror_17_failures_that_a_try_caught_are_told_too(outside):
    """`try_step`, a plain block and a scoped one hide a failure from the workflow, not from the hook."""

    class Trip(hooked(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("a", self.fail)
            ctx.try_block("plain", lambda block: block.step("b", self.fail))
            ctx.try_block("scoped", lambda block: block.step("c", self.fail), rollback=True)

    assert drive(Trip.create("one")) == "completed"

    assert told(outside) == [("step", name, "CriticalError") for name in "abc"]
