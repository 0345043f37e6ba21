"""ROLLBACK: handlers are stored by name, and looked up when they run, maybe after a deploy."""

from functools import partial

import pytest
from django.contrib.auth.models import Group

from django_rivet import workflow
from django_rivet.testing import advance, drive, isolated_actors
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def delete_group(rollback, name):
    """A handler that is a function of a module."""
    Group.objects.filter(name=name).delete()


def test_rollback_09_a_module_level_function_can_be_a_handler(outside):
    """Besides methods of the actor, functions of a module are handlers."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("group", self.gather, rollback=delete_group)
            ctx.step("hotel", self.fail)

        def gather(self):
            return Group.objects.create(name="travellers").name

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert not Group.objects.exists()
    assert trip.history()["group"].rollback.handler == "tests.conformance.test_rollback_references:delete_group"


@pytest.mark.parametrize("kind", ["lambda", "closure", "partial", "another's method"])
def test_rollback_15_a_handler_that_cannot_be_stored_by_name_is_refused_before_the_body(outside, kind):
    """Differs on purpose from the reference, which keeps handlers in the code: here they are durable references."""

    class Other:
        def undo(self, rollback, output):
            pass

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.handler())

        def handler(self):
            def closure(rollback, output):
                self.undo(rollback, output)

            return {
                "lambda": lambda rollback, output: None,
                "closure": closure,
                "partial": partial(delete_group, name="x"),
                "another's method": Other().undo,
            }[kind]

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.error.name == "RollbackHandlerError"
    assert outside == []


def test_rollback_15_arguments_that_cannot_be_stored_are_refused_before_the_body(outside):
    """Differs on purpose: a handler needs the step's arguments after a deploy, so they have to be storable."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, object(), rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.error.name == "OutputNotSerializableError"
    assert "flight" in trip.error.message
    assert outside == []


@pytest.mark.parametrize("alias", ["tests.Trip:give_back_room", "self:give_back_room"])
def test_rollback_24_a_renamed_handler_is_found_by_its_alias(outside, settings, alias):
    """Differs on purpose: `HANDLER_ALIASES` leads from the name on record to the one in today's code."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("hotel", self.do, "H-2", rollback=self.give_back_room)
            ctx.sleep("night", 60)

        def give_back_room(self, rollback, thing):
            raise AssertionError("this is the code of yesterday")

    trip = Trip.create("one")
    drive(trip)
    settings.RIVET = {"HANDLER_ALIASES": {alias: "cancel_room"}}

    with isolated_actors():

        class TripOfToday(undoable(outside)):
            class Meta:
                name = "tests.Trip"

            @workflow
            def run(self, ctx):
                pass

            def cancel_room(self, rollback, thing):
                self.undo(rollback, thing)

        trip.cancel(rollback=True)
        assert drive(trip) == "cancelled"

    assert outside == ["do H-2", "undo H-2"]


def test_rollback_24_a_handler_that_is_back_runs_after_recover(outside):
    """Differs on purpose: once a deploy brings the handler back, `recover()` goes on with it."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.give_back_room)
            ctx.sleep("night", 60)
            ctx.step("car", self.fail)

        def give_back_room(self, rollback, thing):
            self.undo(rollback, thing)

    trip = Trip.create("one")
    drive(trip)
    advance(61)

    with isolated_actors():

        class TripOfToday(undoable(outside)):
            class Meta:
                name = "tests.Trip"

            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("trip")
                ctx.step("flight", self.do, "F-1", rollback=self.undo)
                ctx.step("hotel", self.do, "H-2", rollback=self.undo)
                ctx.sleep("night", 60)
                ctx.step("car", self.fail)

        assert drive(trip) == "rollback_failed"

    trip.recover()
    assert drive(trip) == "failed"

    assert outside == ["do F-1", "do H-2", "undo H-2", "undo F-1"]
