"""RECOVER: failures that the workflow caught, answered or wrapped, and what it did about them."""

import pytest

from django_rivet import CriticalError, workflow
from django_rivet.testing import drive
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


@pytest.mark.parametrize("catching", ["try_step", "try_block", "scoped_block", "except_clause"])
def test_recover_03_a_failure_that_the_workflow_caught_stays_as_recorded(outside, catching):
    """Differs on purpose from the reference, which puts every failed entry back, so that the past changes."""
    working = []

    class Trip(booking(outside, working)):
        @workflow
        def run(self, ctx):
            getattr(self, catching)(ctx)
            ctx.step("hotel", self.try_to, "hotel")

        def try_step(self, ctx):
            assert not ctx.try_step("upgrade", self.try_to, "upgrade").ok

        def try_block(self, ctx):
            assert not ctx.try_block("block", lambda block: block.step("upgrade", self.try_to, "upgrade")).ok

        def scoped_block(self, ctx):
            saga = ctx.try_block("saga", lambda saga: saga.step("upgrade", self.try_to, "upgrade"), rollback=True)
            assert not saga.ok

        def except_clause(self, ctx):
            with pytest.raises(CriticalError, match="upgrade is closed"):
                ctx.step("upgrade", self.try_to, "upgrade")

    trip = Trip.create("one")
    drive(trip)
    working += ["upgrade", "hotel"]

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["try upgrade", "try hotel", "try hotel"]


@pytest.mark.parametrize("raising", ["from_it", "while_handling_it"])
def test_recover_03_an_error_raised_in_answer_to_another_passed_the_same_entries(outside, raising):
    """Differs on purpose: a workflow that wraps a step's error gets fresh attempts for that step."""
    working = []

    class Trip(booking(outside, working)):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("hotel", self.try_to, "hotel")
            except CriticalError as error:
                if raising == "from_it":
                    raise ValueError("no trip") from error
                raise ValueError("no trip")  # noqa: B904 - the context is what this is about

    trip = Trip.create("one")
    assert drive(trip) == "failed"
    working.append("hotel")

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["try hotel", "try hotel"]


def test_recover_03_an_error_that_came_out_of_an_entry_counts_by_itself(outside):
    """Differs on purpose: a fallback that fails is tried again; the failure that it was an answer to stays."""
    working = []

    class Trip(booking(outside, working)):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("hotel", self.try_to, "hotel")
            except CriticalError:
                ctx.step("tent", self.try_to, "tent")

    trip = Trip.create("one")
    drive(trip)
    working += ["hotel", "tent"]

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["try hotel", "try tent", "try tent"]


def test_recover_03_an_error_of_the_workflows_own_puts_no_entry_back(outside):
    """Differs on purpose: an error that has nothing to do with a caught failure leaves that as it is."""
    mistakes = ["price"]

    class Trip(booking(outside, [])):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.do, "F-1")
            ctx.try_step("upgrade", self.try_to, "upgrade")
            if mistakes:
                raise KeyError(mistakes.pop())
            ctx.step("hotel", self.do, "H-2")

    trip = Trip.create("one")
    assert drive(trip) == "failed"

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["do F-1", "try upgrade", "do H-2"]


def test_recover_03_what_came_after_the_entry_put_back_binds_nothing(outside):
    """Differs on purpose: a clean-up after the failure is on record, but the way that succeeds need not pass it."""
    working = []

    class Trip(booking(outside, working)):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("hotel", self.try_to, "hotel")
            except CriticalError:
                ctx.step("apologize", self.do, "apology", atomic=False)
                raise
            ctx.step("dinner", self.do, "dinner")

    trip = Trip.create("one")
    drive(trip)
    working.append("hotel")

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["try hotel", "do apology", "try hotel", "do dinner"]


def test_recover_03_what_came_after_the_entry_put_back_is_replayed_where_it_is_reached(outside):
    """Differs on purpose: it binds nothing, but it happened: the same clean-up is not done twice."""

    class Trip(booking(outside, [])):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("hotel", self.try_to, "hotel")
            except CriticalError:
                ctx.step("apologize", self.do, "apology")
                raise

    trip = Trip.create("one")
    drive(trip)

    trip.recover()
    assert drive(trip) == "failed"

    assert outside == ["try hotel", "do apology", "try hotel"]
