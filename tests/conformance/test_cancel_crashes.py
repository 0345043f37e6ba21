"""CANCEL: while a block is being undone, with a worker that dies at every commit."""

from contextlib import suppress
from itertools import count

import pytest

from django_rivet import workflow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fails_once", [False, True], ids=["", "each handler fails once"])
@pytest.mark.parametrize("rollback", [False, True])
def test_cancel_03_a_block_that_is_being_undone_survives_every_crash(outside, rollback, fails_once, after):
    """The block is undone to its end, with a rollback all else as well, each once, and no step begins any more."""

    class Trip(undoable(outside)):
        class State:
            booked: list[str] = []
            given_back: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, "flight", rollback=self.give_back)
            for turn in ctx.loop("nights"):
                turn.step("bus", self.book, f"bus {turn.iteration}", rollback=self.give_back)
                turn.try_block("stay", self.stay, rollback=True)

        def stay(self, block):
            block.step("parking", self.book, "parking", rollback=self.give_back)
            block.step("room", self.book, "room", rollback=self.cancel_and_give_back)
            block.step("breakfast", self.fail)

        def book(self, thing):
            self.state.booked.append(thing)
            return thing

        def cancel_and_give_back(self, context, thing):
            Trip.get(self.key).cancel(rollback=rollback)
            self.give_back(context, thing)

        def give_back(self, context, thing):
            if fails_once and context.attempt == 1:
                raise OSError("busy")
            self.state.booked.remove(thing)
            self.state.given_back.append(thing)

    for n in count(1):
        trip = Trip.create(str(n))

        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive(trip)
        for _ in range(5):
            drive(trip)
            advance(5)

        assert (trip.status, trip.error) == ("cancelled", None), n
        rest = ["bus 0", "flight"]
        assert trip.state.given_back == ["room", "parking", *(rest if rollback else [])], n
        assert trip.state.booked == ([] if rollback else ["flight", "bus 0"]), n
        if not point.crashed:
            assert n > 8
            return
