"""CANCEL with `rollback=True` of an actor whose worker died: its code is replayed first, up to where it stands."""

import pytest

from django_rivet import CriticalError, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def drive_and_die(handle):
    with pytest.raises(SimulatedCrash):
        drive(handle)


def dying(outside):
    """A base for actors at one of whose steps the worker dies."""

    class Dying(undoable(outside)):
        class Meta:
            abstract = True

        def die(self):
            outside.append("die")
            raise SimulatedCrash

    return Dying


def test_cancel_03_iterations_that_had_ended_are_settled_first(outside):
    """The end of iteration 0 was not on record when the worker died; the replay finds it, and its order stays."""

    class Shop(dying(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                if turn.iteration == 0:
                    turn.step("reserve", self.do, 0, rollback=self.undo)
                else:
                    turn.step("reserve", self.die, rollback=self.undo)

    shop = Shop.create("one")
    drive_and_die(shop)
    assert shop.history()["orders/0/reserve"].rollback.status == "owed"

    shop.cancel(rollback=True)
    assert drive(shop) == "cancelled"

    assert outside == ["do 0", "die"]
    assert shop.history()["orders/0/reserve"].rollback.status == "settled"


def test_cancel_03_the_replay_executes_nothing(outside):
    """It runs no body, takes no message, and stops at the first thing that is not on record."""

    class Trip(dying(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.die_once)
            ctx.queue.next("answer", ["answers"])
            ctx.step("car", self.do, "C-3")

        def die_once(self):
            if "die" not in outside:
                self.die()

    trip = Trip.create("one")
    trip.send("answers", "yes")
    drive_and_die(trip)

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside == ["pass", "do F-1", "die", "pass", "undo F-1"]
    assert Message.objects.get().status == "queued"


def test_cancel_03_a_message_that_is_there_is_not_taken_by_the_replay(outside):
    """A receive that is not on record is where the workflow stands."""

    class Trip(dying(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.queue.next("answer", ["answers"])
            ctx.step("hotel", self.die)

    trip = Trip.create("one")
    trip.send("answers", "yes")
    drive_and_die(trip)

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside == ["do F-1", "die", "undo F-1"]
    assert Message.objects.get().status == "queued"


def test_cancel_03_code_that_does_not_fit_makes_it_diverged_and_the_request_stays(outside):
    """Nothing is undone by code that is wrong; with the right code back the cancellation is carried out."""

    class Trip(dying(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.die)

    trip = Trip.create("one")
    drive_and_die(trip)
    trip.cancel(rollback=True)

    with isolated_actors():

        class TripOfToday(dying(outside)):
            class Meta:
                name = "tests.Trip"

            @workflow
            def run(self, ctx):
                ctx.step("train", self.do, "T-1")

        assert drive(trip) == "diverged"
        assert outside == ["do F-1", "die"]

    advance(2)
    assert drive(trip) == "cancelled"
    assert outside == ["do F-1", "die", "undo F-1"]


def test_cancel_03_code_that_returns_has_completed(outside):
    """All was done when the worker died before its last commit: the actor is completed, and nothing is undone."""

    class Trip(dying(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            return "home"

    trip = Trip.create("one")
    with crash_at(3):
        drive_and_die(trip)

    assert trip.cancel(rollback=True)
    assert drive(trip) == "completed"

    assert (trip.output, outside) == ("home", ["do F-1"])
    assert trip.history()["flight"].rollback.status == "settled"


def test_cancel_03_code_that_raises_stands_there_and_is_undone(outside):
    """A failure that was on record when the worker died is where it stands: undone once, and cancelled."""

    class Trip(dying(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.fail)

    trip = Trip.create("one")
    with crash_at(4):
        drive_and_die(trip)
    assert trip.history()["hotel"].status == "failed"

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside == ["do F-1", "undo F-1"]


def test_cancel_03_an_actor_whose_last_drive_ended_with_a_release_is_not_replayed(outside):
    """An older crash does not matter: the drive after it gave the actor back in order."""

    class Trip(dying(outside)):
        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.die_once)
            ctx.sleep("night", 60)

        def die_once(self):
            if "die" not in outside:
                self.die()

    trip = Trip.create("one")
    drive_and_die(trip)
    assert drive(trip) == "sleeping"
    passes = outside.count("pass")

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside.count("pass") == passes
    assert outside[-1] == "undo F-1"


def test_cancel_03_without_a_rollback_a_dead_workers_actor_is_cancelled_by_the_next(outside):
    """The request waits for whoever takes the actor over; nothing is run and nothing undone."""

    class Trip(dying(outside)):
        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.die)

    trip = Trip.create("one")
    drive_and_die(trip)

    assert trip.cancel()
    assert drive(trip) == "cancelled"

    assert outside == ["pass", "do F-1", "die"]


def test_cancel_03_a_block_that_was_being_undone_when_its_worker_died_goes_on(outside):
    """Its handlers that ended are not repeated; then what is around the block is undone."""

    class Trip(dying(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("car", self.do, "C-3")

        def stay(self, block):
            block.step("parking", self.do, "P-1", rollback=self.undo_or_die)
            block.step("room", self.do, "R-1", rollback=self.undo)
            block.step("breakfast", self.fail)

        def undo_or_die(self, rollback, thing):
            self.undo(rollback, thing)
            if outside.count("undo P-1") == 1:
                raise SimulatedCrash

    trip = Trip.create("one")
    drive_and_die(trip)

    trip.cancel(rollback=True)
    assert drive(trip) == "cancelled"

    assert outside[3:] == ["undo R-1", "undo P-1", "undo P-1", "undo F-1"]


def test_cancel_03_at_every_commit_of_a_drive_a_cancellation_undoes_all_that_happened(outside):
    """Wherever the worker dies, what is on record is undone once, and the actor ends cancelled or had completed."""

    class Trip(undoable(outside)):
        class State:
            seats: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.take, "flight", rollback=self.give_back)
            for turn in ctx.loop("nights"):
                if turn.iteration == 2:
                    break
                turn.step("room", self.take, f"room {turn.iteration}", rollback=self.give_back)
            ctx.step("car", self.take, "car")

        def take(self, thing):
            self.state.seats.append(thing)
            return thing

        def give_back(self, rollback, thing):
            self.state.seats.remove(thing)

    for n, after in [(n, after) for n in range(1, 7) for after in (False, True)]:
        trip = Trip.create(f"{n} {after}")
        with crash_at(n, after):
            drive_and_die(trip)

        is_completed = trip.status == "completed"
        assert trip.cancel(rollback=True) is not is_completed
        drive(trip)

        if trip.status == "completed":
            assert trip.state.seats == ["flight", "room 0", "room 1", "car"]
            assert (n, after) in [(5, True), (6, False), (6, True)]
        else:
            assert trip.status == "cancelled"
            assert trip.state.seats == []


def test_cancel_03_an_uncaught_error_without_anything_owed_ends_cancelled_too(outside):
    """Where the replay raises and nothing is owed the request is carried out all the same."""

    class Trip(dying(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("hotel", self.do, "H-2")
            raise CriticalError("no flight")

    trip = Trip.create("one")
    with crash_at(3):
        drive_and_die(trip)

    trip.cancel(rollback=True)

    assert drive(trip) == "cancelled"
