"""RECOVER: loops and blocks around what was compensated are open again, and no others."""

import pytest

from django_rivet import Break, Continue, CriticalError, workflow
from django_rivet.testing import drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def failing(outside, open_doors):
    """A base for actors that end with a step which fails while ``open_doors`` is empty."""

    class Failing(undoable(outside)):
        class Meta:
            abstract = True

        def go_home(self):
            if not open_doors:
                raise CriticalError("no way home")
            outside.append("home")

    return Failing


def test_recover_05_a_loop_is_entered_at_its_first_iteration_with_a_compensated_step(outside):
    """Differs on purpose: from there on the code of each iteration runs again, and steps not undone are replayed."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for turn in ctx.loop("days", state=100):
                outside.append(f"day {turn.iteration}, state {turn.state}")
                if turn.iteration in (1, 3):
                    turn.step("museum", self.do, f"museum {turn.iteration}", rollback=self.undo)
                else:
                    turn.step("walk", self.do, f"walk {turn.iteration}")
                if turn.iteration == 3:
                    break
                turn.state -= 10
            ctx.step("home", self.go_home)

    trip = Trip.create("one")
    drive(trip)
    doors.append("open")
    outside.clear()

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == [
        *("day 1, state 90", "do museum 1", "day 2, state 80", "day 3, state 70", "do museum 3"),
        "home",
    ]


def test_recover_05_a_loop_that_had_ended_begins_with_its_initial_state(outside):
    """Differs on purpose: a completed loop whose first iteration was undone starts over as it started then."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            total = ctx.loop("days", self.day, state=0)
            ctx.step("home", self.go_home)
            return total

        def day(self, turn, state):
            outside.append(f"state {state}")
            cost = turn.step("museum", self.do, turn.iteration + 10, rollback=self.undo)
            return Break(f"total {state + cost}") if turn.iteration == 1 else Continue(state + cost)

    trip = Trip.create("one")
    drive(trip)
    doors.append("open")
    outside.clear()

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["state 0", "do 10", "state 10", "do 11", "home"]
    assert trip.output == "total 21"


def test_recover_05_an_iteration_behind_pruned_ones_has_the_state_it_had(outside):
    """Differs on purpose: history that is pruned around an iteration that owes must not change what it starts from.

    Iterations behind it are replayed: no step that completed and was not undone runs again.
    """
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for turn in ctx.loop("days", state=100, history_prune_interval=1):
                outside.append(f"day {turn.iteration}, state {turn.state}")
                if turn.iteration == 2:
                    turn.step("museum", self.do, "museum", rollback=self.undo)
                else:
                    turn.step("walk", self.do, f"walk {turn.iteration}")
                if turn.iteration == 5:
                    break
                turn.state -= 10
            ctx.step("home", self.go_home)

    trip = Trip.create("one")
    drive(trip)
    doors.append("open")
    outside.clear()

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == [
        *("day 2, state 80", "do museum", "day 3, state 70", "day 4, state 60", "day 5, state 50"),
        "home",
    ]


def test_recover_05_a_scoped_block_that_ended_well_is_open_again(outside):
    """Differs on purpose: where its steps were undone, its recorded outcome is void and it is entered again."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            room = ctx.try_block("stay", self.stay, rollback=True).value
            ctx.step("home", self.go_home)
            return room

        def stay(self, block):
            return block.step("room", self.book, rollback=self.undo)

        def book(self):
            return self.do(f"R-{len(outside)}")

    trip = Trip.create("one")
    drive(trip)
    doors.append("open")

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["do R-0", "undo R-0", "do R-2", "home"]
    assert trip.output == "R-2"


def test_recover_05_a_scoped_block_that_failed_and_was_undone_keeps_its_outcome(outside):
    """Differs on purpose: a failure that the workflow caught stays as recorded, and the block is not entered again."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            result = ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("home", self.go_home)
            return result.failure.error.message

        def stay(self, block):
            block.step("room", self.do, "R-1", rollback=self.undo)
            block.step("breakfast", self.fail, "no eggs")

    trip = Trip.create("one")
    drive(trip)
    doors.append("open")
    outside.clear()

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["do F-1", "home"]
    assert trip.output == "no eggs"


def test_recover_05_orders_that_were_settled_or_rejected_long_ago_stay_so(outside):
    """Differs on purpose: in a loop of sagas, recovering from the failure of one order does not touch earlier ones."""
    doors = []

    class Shop(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                result = turn.try_block("saga", lambda saga, turn=turn: self.take(saga, turn.iteration), rollback=True)
                turn.step("report", self.do, f"order {turn.iteration}: {result.ok}")
                if turn.iteration == 2:
                    turn.step("home", self.go_home)
                    break

        def take(self, saga, number):
            saga.rollback_checkpoint("order")
            saga.step("reserve", self.do, number, rollback=self.undo)
            saga.step("confirm", self.fail if number == 1 else self.do, "confirmed")

    shop = Shop.create("one")
    assert drive(shop) == "failed"
    doors.append("open")
    outside.clear()

    shop.recover()
    assert drive(shop) == "completed"

    assert outside == ["home"]
