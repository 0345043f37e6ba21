"""RECOVER: a worker dies at every commit of the way into the failure, and at every commit of the way out."""

from contextlib import suppress
from itertools import count

import pytest

from django_rivet import Break, Continue, CriticalError, workflow
from django_rivet.testing import SimulatedCrash, crash_at, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_recover_05_loops_and_blocks_are_done_once_more_whatever_dies(outside, after):
    """Differs on purpose: what was undone runs again and nothing else does, in loops of both forms and in blocks."""
    doors = []

    class Trip(undoable(outside)):
        class State:
            booked: list[str] = []
            nights: int = 0

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, "flight", rollback=self.give_back)
            for turn in ctx.loop("nights", state=0, history_prune_interval=1):
                turn.step("room", self.book, f"room {turn.iteration}", rollback=self.give_back)
                turn.step("meal", self.book, f"meal {turn.iteration}")
                turn.try_block("tour", lambda block, n=turn.iteration: self.tour(block, n), rollback=True)
                turn.step("count", self.count_night)
                turn.state += 1
                if turn.state == 3:
                    break
            total = ctx.loop("trains", self.train, state=5)
            ctx.step("home", self.go_home)
            return total

        def tour(self, block, number):
            block.step("guide", self.book, f"guide {number}", rollback=self.give_back)
            if number == 1:
                raise KeyError("the museum is closed")

        def train(self, turn, state):
            turn.step("seat", self.book, f"seat {state}", rollback=self.give_back)
            return Break(state * 10) if state == 6 else Continue(state + 1)

        def book(self, thing):
            self.state.booked.append(thing)
            return thing

        def give_back(self, rollback, thing):
            self.state.booked.remove(thing)

        def count_night(self):
            self.state.nights += 1

        def go_home(self):
            if not doors:
                raise CriticalError("no way home")

    meals = [f"meal {n}" for n in range(3)]
    others = ["flight", "room 0", "room 1", "room 2", "guide 0", "guide 2", "seat 5", "seat 6"]
    for n in count(1):
        doors.clear()
        trip = Trip.create(str(n))

        with crash_at(n, after) as way_in, suppress(SimulatedCrash):
            drive(trip)
        assert drive(trip) == "failed", n
        assert trip.state.booked == meals, n

        doors.append("open")
        trip.recover()
        with crash_at(n, after) as way_out, suppress(SimulatedCrash):
            drive(trip)
        assert drive(trip) == "completed", n
        assert (trip.output, trip.state.nights) == (60, 3), n
        assert sorted(trip.state.booked) == sorted(meals + others), n
        if not way_in.crashed and not way_out.crashed:
            assert n > 20
            return
