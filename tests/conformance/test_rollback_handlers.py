"""ROLLBACK: what a handler is called with, what it may do, and which functions can be one."""

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, Event, Queue, action, current_step, workflow
from django_rivet.models import Event as EventRow
from django_rivet.models import Message as MessageRow
from django_rivet.testing import advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def delete_group(rollback, name):
    """A handler that is a function of a module."""
    Group.objects.filter(name=name).delete()


def test_rollback_09_a_handler_is_told_all_about_its_step(outside):
    """The first argument holds the step's arguments, attempt, cause and outcome; the second is the output."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, "Oslo", 2, kwargs={"window": True}, rollback=self.give_back)
            ctx.step("hotel", self.fail, "no room")

        def book(self, to, seats, window):
            return {"ticket": f"{to}-{seats}"}

        def give_back(self, rollback, output):
            outside.append((list(rollback.args), dict(rollback.kwargs), output))
            outside.append((rollback.attempt, rollback.outcome, type(rollback.cause).__name__))
            outside.append(str(rollback.cause.error))

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == [
        (["Oslo", 2], {"window": True}, {"ticket": "Oslo-2"}),
        (1, "completed", "WorkflowFailedError"),
        "CriticalError: no room",
    ]


def test_rollback_09_a_handler_has_the_full_context_of_a_step(outside):
    """State, rows, broadcasts, messages and calls of other actors of a handler land with its record."""

    class Till(Actor):
        class State:
            paid: int = 0

        @action
        def add(self, amount: int) -> int:
            self.state.paid += amount
            return amount

    class Trip(undoable(outside)):
        class State:
            seats: list[str] = []

        seat_free = Event(str)
        notes = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("pay", self.pay, rollback=self.pay_back)
            ctx.step("seat", self.take_seat, "1A", rollback=self.free_seat)
            ctx.step("hotel", self.fail)

        def pay(self):
            return Till.get_or_create("main").add(100)

        def pay_back(self, rollback, amount):
            Till.get("main").add(-amount)

        def take_seat(self, seat):
            self.state.seats.append(seat)
            Group.objects.create(name=seat)
            return seat

        def free_seat(self, rollback, seat):
            self.state.seats.remove(seat)
            Group.objects.filter(name=seat).delete()
            self.seat_free.broadcast(seat)
            Trip.get("one").send("notes", f"{seat} is free")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert Till.get("main").state.paid == 0
    assert trip.state.seats == []
    assert not Group.objects.exists()
    assert [event.name for event in EventRow.objects.all()] == ["seat_free"]
    assert [message.queue for message in MessageRow.objects.all()] == ["notes"]


def test_rollback_09_a_failed_attempt_of_a_handler_leaves_no_trace(outside):
    """What an atomic handler did before it raised is rolled back with it, so that its retry starts clean."""

    class Trip(undoable(outside)):
        class State:
            refunds: int = 0

        seat_free = Event(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("seat", self.do, "1A", rollback=self.free_seat)
            ctx.step("hotel", self.fail)

        def free_seat(self, rollback, seat):
            self.state.refunds += 1
            Group.objects.create(name=f"refund {rollback.attempt}")
            self.seat_free.broadcast(seat)
            if rollback.attempt == 1:
                raise OSError("busy")

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert (trip.state.refunds, Group.objects.count(), EventRow.objects.count()) == (0, 0, 0)
    advance(1)
    assert drive(trip) == "failed"

    assert trip.state.refunds == 1
    assert [group.name for group in Group.objects.all()] == ["refund 2"]
    assert EventRow.objects.count() == 1


def test_rollback_09_a_handler_outside_a_transaction_may_read_the_state_only(outside):
    """A non-atomic handler that assigns to the state is refused, and nobody retries that."""

    class Trip(undoable(outside)):
        class State:
            seats: int = 0

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("seat", self.take_seat, rollback=self.free_seat, rollback_atomic=False)
            ctx.step("hotel", self.fail)

        def take_seat(self):
            self.state.seats += 1

        def free_seat(self, rollback, seat):
            outside.append(self.state.seats)
            self.state = {"seats": 0}

    trip = Trip.create("one")

    assert drive(trip) == "rollback_failed"

    assert outside == [1]
    assert trip.state.seats == 1
    assert trip.history()["seat"].rollback.error.name == "StepOnlyError"


def test_rollback_09_a_handler_may_be_async(outside):
    """An `async def` handler is awaited and may change the state."""

    class Trip(undoable(outside)):
        class State:
            seats: int = 0

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("seat", self.take_seat, rollback=self.free_seat)
            ctx.step("hotel", self.fail)

        def take_seat(self):
            self.state.seats += 1

        async def free_seat(self, rollback, seat):
            self.state.seats -= 1

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.history()["seat"].rollback.status == "completed"
    assert trip.state.seats == 0


def test_rollback_09_a_handler_has_a_key_of_its_own_that_its_retries_keep(outside):
    """The idempotency key of a handler differs from its step's, and is the same on every attempt."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.note_key, rollback=self.note_keys)
            ctx.step("hotel", self.fail)

        def note_key(self):
            outside.append(current_step().idempotency_key)

        def note_keys(self, rollback, output):
            assert current_step().idempotency_key == rollback.idempotency_key
            assert (current_step().name, current_step().attempt) == ("flight", rollback.attempt)
            outside.append(rollback.idempotency_key)
            if rollback.attempt == 1:
                raise OSError("busy")

    trip = Trip.create("one")

    drive(trip)
    advance(1)
    assert drive(trip) == "failed"

    of_step, of_handler, of_its_retry = outside
    assert of_handler == of_its_retry != of_step
