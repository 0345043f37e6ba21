"""ROLLBACK: a worker that shuts down gives the actor away in the middle of a rollback."""

from dataclasses import replace
from uuid import UUID

import pytest

from django_rivet import workflow
from django_rivet.runtime import drive as driving
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def stopping_once(outside, mark):
    """A worker that shuts down as soon as ``mark`` is seen outside."""
    return replace(in_process_worker("stopping"), evicted=lambda: mark in outside)


def test_rollback_10_a_worker_that_stops_gives_the_actor_away_between_handlers(outside):
    """One handler at a time: a worker that shuts down ends the one it is in, and another goes on with the rest."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo)
            ctx.step("car", self.fail, "no car left")

    trip = Trip.create("one")

    assert driving.drive(UUID(trip.id), stopping_once(outside, "undo H-2"))

    assert trip.status == "rolling_back"
    assert outside[2:] == ["undo H-2"]
    assert drive(trip) == "failed"
    assert outside[2:] == ["undo H-2", "undo F-1"]


def test_rollback_10_a_worker_that_stops_begins_no_rollback(outside):
    """Eviction is looked for before the first handler too: the failure is on record, and others do the rest."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.note_and_fail)

        def note_and_fail(self):
            outside.append("failing")
            self.fail("full")

    trip = Trip.create("one")

    assert driving.drive(UUID(trip.id), stopping_once(outside, "failing"))

    assert (trip.status, str(trip.error)) == ("rolling_back", "CriticalError: full")
    assert outside == ["do F-1", "failing"]
    assert drive(trip) == "failed"
    assert outside == ["do F-1", "failing", "undo F-1"]
