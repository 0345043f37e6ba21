"""ONERROR: an error hook that fails itself hurts nobody."""

import asyncio
import logging

import pytest
from django.contrib.auth.models import Group

from django_rivet import Event, workflow
from django_rivet.models import Event as EventRow
from django_rivet.runtime import bodies
from django_rivet.testing import drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def test_onerror_09_a_hook_that_raises_is_logged_and_changes_nothing(outside, caplog):
    """Its own writes are undone, the step's failure is recorded, and the workflow goes on as it would."""

    class Trip(undoable(outside)):
        class State:
            errors: int = 0

        trouble = Event(str)

        @workflow
        def run(self, ctx):
            assert not ctx.try_step("flight", self.fail).ok
            ctx.step("train", self.do, "T-1")

        @run.on_error
        def note(self, event):
            self.state.errors += 1
            Group.objects.create(name="note")
            self.trouble.broadcast("help")
            raise KeyError("nobody to tell")

    trip = Trip.create("one")

    with caplog.at_level(logging.ERROR, "django_rivet"):
        assert drive(trip) == "completed"

    assert (trip.state.errors, Group.objects.count(), EventRow.objects.count()) == (0, 0, 0)
    assert trip.history()["flight"].status == "failed"
    assert "the error hook of <tests.Trip one> raised" in caplog.text
    assert "KeyError: 'nobody to tell'" in caplog.text
    assert outside == ["do T-1"]


def test_onerror_09_a_hook_that_breaks_the_database_undoes_only_itself(outside):
    """It runs in a savepoint: a statement that the database refuses does not cost the record of the failure."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)
            ctx.step("train", self.do, "T-1")

        @run.on_error
        def note(self, event):
            for _ in range(2):
                Group.objects.create(name="twice")

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert not Group.objects.exists()
    assert trip.history()["flight"].attempts == 1


def test_onerror_09_a_hook_that_leaves_an_invalid_state_changes_nothing(outside):
    """State that does not fit its declaration any more is the hook's failure, not the workflow's."""

    class Trip(undoable(outside)):
        class State:
            errors: int = 0

        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)

        @run.on_error
        def note(self, event):
            Group.objects.create(name="note")
            self.state.__dict__["errors"] = "many"

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert trip.state.errors == 0
    assert not Group.objects.exists()


def test_onerror_10_a_hook_has_five_seconds_at_most(outside, monkeypatch):
    """Differs from the reference, where it delays the workflow as long as it likes: it is stopped and undone."""
    assert bodies.HOOK_SECONDS == 5
    monkeypatch.setattr(bodies, "HOOK_SECONDS", 0.05)

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)

        @run.on_error
        def note(self, event):
            Group.objects.create(name="note")
            while True:
                pass

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert trip.history()["flight"].status == "failed"
    assert not Group.objects.exists()


def test_onerror_10_an_async_hook_has_five_seconds_too(outside, monkeypatch):
    """Differs from the reference: one that awaits something slow is stopped as well."""
    monkeypatch.setattr(bodies, "HOOK_SECONDS", 0.05)

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)

        @run.on_error
        async def note(self, event):
            outside.append("noting")
            await asyncio.sleep(3)
            outside.append("noted")

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert outside == ["noting"]
