"""ROLLBACK: a worker may die at any commit of a rollback; what ended is not repeated, and the rest is done."""

from contextlib import suppress
from itertools import count

import pytest
from django.contrib.auth.models import Group

from django_rivet import Queue, workflow
from django_rivet.testing import SimulatedCrash, crash_at, drive
from tests.conformance.undoable import undoable

BEFORE_AND_AFTER = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


def drive_with_a_crash(handle, n, after):
    """Drive until nothing is due, dying once at commit ``n``; False where there was no such commit."""
    with crash_at(n, after) as point, suppress(SimulatedCrash):
        drive(handle)
    drive(handle)
    return point.crashed


@pytest.mark.django_db
@BEFORE_AND_AFTER
def test_rollback_03_a_failing_workflow_survives_a_crash_at_every_commit(outside, after):
    """Atomic steps and handlers have their effect exactly once, wherever the worker dies, forward or back."""

    class Trip(undoable(outside)):
        class State:
            seats: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("seat", self.take, "1A", rollback=self.give_back)
            for turn in ctx.loop("nights"):
                turn.step("room", self.take, f"room {turn.iteration}", rollback=self.give_back)
                if turn.iteration == 1:
                    break
            ctx.step("home", self.fail, "no way home")

        def take(self, thing):
            self.state.seats.append(thing)
            Group.objects.create(name=f"{self.key} {thing} taken")
            return thing

        def give_back(self, rollback, thing):
            self.state.seats.remove(thing)
            Group.objects.create(name=f"{self.key} {thing} given back")

    for n in count(1):
        trip = Trip.create(str(n))

        crashed = drive_with_a_crash(trip, n, after)

        assert (trip.status, str(trip.error)) == ("failed", "CriticalError: no way home"), n
        assert trip.state.seats == [], n
        rows = [name.removeprefix(f"{n} ") for name in Group.objects.order_by("id").values_list("name", flat=True)]
        taken = ["1A", "room 0", "room 1"]
        assert rows == [f"{t} taken" for t in taken] + [f"{t} given back" for t in reversed(taken)], n
        Group.objects.all().delete()
        if not crashed:
            assert n == 11, "claim, three steps, the failure, the stage, three handlers, the release; then none"
            return


@pytest.mark.django_db
@BEFORE_AND_AFTER
def test_rollback_03_a_scoped_block_survives_a_crash_at_every_commit(outside, after):
    """The block is undone once and its outcome is data, wherever the worker dies; the workflow goes on behind it."""

    class Trip(undoable(outside)):
        class State:
            seats: list[str] = []
            refusals: int = 0

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.take, "flight", rollback=self.give_back)
            result = ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("note", self.note)
            return result.failure.error.message

        def stay(self, block):
            block.step("room", self.take, "room", rollback=self.give_back)
            block.step("parking", self.take, "parking", rollback=self.give_back)
            block.step("breakfast", self.fail, "no eggs")

        def take(self, thing):
            self.state.seats.append(thing)
            return thing

        def give_back(self, rollback, thing):
            self.state.seats.remove(thing)
            Group.objects.create(name=f"{self.key} {thing} given back")

        def note(self):
            self.state.refusals += 1

    for n in count(1):
        trip = Trip.create(str(n))

        crashed = drive_with_a_crash(trip, n, after)

        assert (trip.status, trip.output) == ("completed", "no eggs"), n
        assert (trip.state.seats, trip.state.refusals) == (["flight"], 1), n
        assert sorted(group.name.removeprefix(f"{n} ") for group in Group.objects.all()) == [
            "parking given back",
            "room given back",
        ], n
        Group.objects.all().delete()
        if not crashed:
            assert n > 8
            return


@pytest.mark.django_db
@BEFORE_AND_AFTER
def test_rollback_03_handlers_outside_a_transaction_are_repeated_at_most_once_by_one_crash(outside, after):
    """Non-atomic handlers are at least once: one crash repeats at most the one it hit, under the same key."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for name in ("flight", "hotel", "car"):
                ctx.step(name, self.call, name, atomic=False, rollback=self.call_off, rollback_when="attempted")
            ctx.step("home", self.fail)

        def call(self, thing):
            return thing

        def call_off(self, rollback, thing):
            outside.append((thing, rollback.idempotency_key, rollback.outcome))

    for n in count(1):
        trip = Trip.create(str(n))
        outside.clear()

        crashed = drive_with_a_crash(trip, n, after)

        assert trip.status == "failed", n
        calls = list(dict.fromkeys(outside))
        assert [(thing, outcome) for thing, _, outcome in calls] == [
            ("car", "completed"),
            ("hotel", "completed"),
            ("flight", "completed"),
        ], n
        assert len(outside) <= 4, n
        if not crashed:
            assert len(outside) == 3
            return


@pytest.mark.django_db
@BEFORE_AND_AFTER
def test_rollback_03_a_cancellation_with_rollback_survives_a_crash_at_every_commit(outside, after):
    """The request stays until it is carried out, and each handler lands once, wherever the worker dies."""

    class Trip(undoable(outside)):
        class State:
            seats: list[str] = []

        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for thing in ("flight", "hotel"):
                ctx.step(thing, self.take, thing, rollback=self.give_back)
            ctx.queue.next("answer", ["answers"])

        def take(self, thing):
            self.state.seats.append(thing)
            return thing

        def give_back(self, rollback, thing):
            self.state.seats.remove(thing)

    for n in count(1):
        trip = Trip.create(str(n))
        drive(trip)
        trip.cancel(rollback=True)

        crashed = drive_with_a_crash(trip, n, after)

        assert (trip.status, trip.error) == ("cancelled", None), n
        assert trip.state.seats == [], n
        if not crashed:
            assert n > 4
            return


@pytest.mark.django_db(transaction=True)
@BEFORE_AND_AFTER
def test_rollback_03_real_transactions_survive_it_as_well(outside, after):
    """The same with true commits instead of a test case's savepoints."""

    class Trip(undoable(outside)):
        class State:
            seats: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("seat", self.take, "1A", rollback=self.give_back)
            ctx.step("charge", self.do, "visa", atomic=False, rollback=self.undo)
            ctx.step("home", self.fail)

        def take(self, thing):
            self.state.seats.append(thing)
            Group.objects.create(name=f"{self.key} {thing}")
            return thing

        def give_back(self, rollback, thing):
            self.state.seats.remove(thing)
            Group.objects.get(name=f"{self.key} {thing}").delete()

    for n in count(1):
        trip = Trip.create(str(n))

        crashed = drive_with_a_crash(trip, n, after)

        assert trip.status == "failed", n
        assert trip.state.seats == [], n
        assert not Group.objects.exists(), n
        if not crashed:
            return
