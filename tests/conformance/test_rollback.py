"""ROLLBACK: a workflow that fails takes back, newest first, what its steps did."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from django_rivet import CriticalError, Queue, RollbackError, workflow
from django_rivet.testing import SimulatedCrash, advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def test_rollback_01_handlers_run_newest_first_with_the_outputs_of_their_steps(outside):
    """Completed steps are undone in reverse order of completion, each once; then the original error stands."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo)
            ctx.step("car", self.fail, "no car left")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do F-1", "do H-2", "undo H-2", "undo F-1"]
    assert (trip.error.name, trip.error.message) == ("CriticalError", "no car left")
    assert str(trip.history()).splitlines() == [
        "trip  checkpoint  completed",
        "flight  step  completed  1 attempt",
        "hotel  step  completed  1 attempt",
        "car  step  failed  1 attempt  CriticalError: no car left",
        "hotel  rolled back  1 attempt",
        "flight  rolled back  1 attempt",
    ]


def test_rollback_02_a_handler_without_a_checkpoint_is_refused_before_the_body(outside):
    """The body does not run, the workflow fails, and nothing is undone: what is owed stays owed."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_block("booking", self.booking)
            ctx.step("car", self.do, "C-3", rollback=self.undo)

        def booking(self, block):
            block.rollback_checkpoint("booking")
            block.step("flight", self.do, "F-1", rollback=self.undo)
            block.step("hotel", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.error.name == "RollbackCheckpointError"
    assert outside == ["do F-1"]
    assert trip.history()["booking/flight"].rollback.status == "owed"


def test_rollback_03_a_handler_that_a_dying_worker_cut_off_is_called_again(outside):
    """Handlers are at least once: the one that was cut off runs again, those that ended do not."""
    deaths = ["one"]

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_or_die)
            ctx.step("car", self.do, "C-3", rollback=self.undo)
            ctx.step("insurance", self.fail, "no cover")

        def undo_or_die(self, rollback, thing):
            self.undo(rollback, thing)
            if deaths:
                deaths.pop()
                raise SimulatedCrash

    trip = Trip.create("one")

    with pytest.raises(SimulatedCrash):
        drive(trip)
    assert trip.status == "rolling_back"
    assert drive(trip) == "failed"

    assert outside[3:] == ["undo C-3", "undo H-2", "undo H-2", "undo F-1"]
    assert str(trip.error) == "CriticalError: no cover"


def test_rollback_04_rollback_moves_no_loop(outside):
    """While handlers run, loops keep the iteration and the state at which the workflow failed."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for turn in ctx.loop("legs", state=0):
                turn.step("leg", self.leg, turn.iteration, rollback=self.undo)
                turn.state += 10

        def leg(self, number):
            if number == 2:
                raise CriticalError("strike")
            return self.do(number)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do 0", "do 1", "undo 1", "undo 0"]
    history = trip.history()
    assert history["legs"].status == "failed"
    assert [history[f"legs/{n}"].output for n in (0, 1)] == [10, 20]
    assert "legs/2" not in [entry.path for entry in history]


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("raise_in_a_step", "CriticalError"),
        ("exhaust_a_step", "StepExhaustedError"),
        ("roll_back_from_a_step", "RollbackError"),
        ("raise_outside_steps", "KeyError"),
        ("roll_back_outside_steps", "RollbackError"),
        ("wait_in_vain", "QueueTimeoutError"),
        ("return_what_cannot_be_stored", "OutputNotSerializableError"),
    ],
)
def test_rollback_05_every_error_that_leaves_the_workflow_undoes_its_steps(outside, ending, error):
    """Whatever error leaves the function, in a step or outside of steps, the handlers run."""

    class Trip(undoable(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            return getattr(self, ending)(ctx)

        def raise_in_a_step(self, ctx):
            ctx.step("hotel", self.fail)

        def exhaust_a_step(self, ctx):
            ctx.step("hotel", self.break_down, max_retries=0)

        def roll_back_from_a_step(self, ctx):
            ctx.step("hotel", self.give_up)

        def raise_outside_steps(self, ctx):
            raise KeyError("price")

        def roll_back_outside_steps(self, ctx):
            raise RollbackError("changed my mind")

        def wait_in_vain(self, ctx):
            ctx.queue.next("answer", ["answers"], timeout=0)

        def return_what_cannot_be_stored(self, ctx):
            return object()

        def break_down(self):
            raise OSError("line is dead")

        def give_up(self):
            raise RollbackError("full")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do F-1", "undo F-1"]
    assert trip.error.name == error


def test_rollback_06_neither_waits_nor_a_plain_cancellation_undo_anything(outside):
    """A workflow that sleeps, waits for messages or retries owes its handlers, and one that is cancelled too."""

    class Trip(undoable(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.sleep("night", 60)
            ctx.step("hotel", self.ask_hotel, max_retries=1)
            ctx.queue.next("answer", ["answers"])

        def ask_hotel(self):
            outside.append("ask hotel")
            if outside.count("ask hotel") == 1:
                raise OSError("busy")

    trip = Trip.create("one")

    assert drive(trip) == "sleeping"
    advance(61)
    assert drive(trip) == "sleeping"
    advance(61)
    assert drive(trip) == "sleeping"
    assert trip.cancel()

    assert drive(trip) == "cancelled"
    assert outside == ["do F-1", "ask hotel", "ask hotel"]
    assert trip.history()["flight"].rollback.status == "owed"


def test_rollback_07_each_stage_is_on_record_before_the_next_begins(outside):
    """First the error and `rolling_back`, then each handler as it ends, and `failed` last of all."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.look_around)
            ctx.step("hotel", self.do, "H-2", rollback=self.look_around)
            ctx.step("car", self.fail, "no car left")

        def look_around(self, rollback, thing):
            trip = Trip.get("one")
            undone = [e.name for e in trip.history() if e.rollback and e.rollback.status == "completed"]
            outside.append((thing, trip.status, str(trip.error), undone))

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[2:] == [
        ("H-2", "rolling_back", "CriticalError: no car left", []),
        ("F-1", "rolling_back", "CriticalError: no car left", ["hotel"]),
    ]


def test_rollback_08_only_completed_steps_with_a_handler_are_undone(outside):
    """The failing step's own handler does not run, and steps without one are passed over."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("seat", self.do, "S-9")
            ctx.step("hotel", self.fail, rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do F-1", "do S-9", "undo F-1"]
    assert [entry.path for entry in trip.history() if entry.rollback] == ["flight"]


def test_rollback_11_handlers_get_the_recorded_output_also_after_a_reload(outside):
    """What a handler gets equals what the step returned, whatever an earlier attempt did to its copy."""
    ticket = {"price": Decimal("12.50"), "booked": datetime(2026, 1, 2, tzinfo=UTC), "seats": ["1A"]}

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, rollback=self.give_back)
            ctx.step("hotel", self.fail)

        def book(self):
            return ticket

        def give_back(self, rollback, output):
            outside.append(dict(output, seats=list(output["seats"])))
            output["seats"].clear()
            if rollback.attempt == 1:
                raise OSError("busy")

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    advance(1)
    assert drive(trip) == "failed"

    assert outside == [ticket, ticket]


def test_rollback_26_both_errors_that_forbid_retries_cause_the_same_rollback(outside):
    """`RollbackError` and `CriticalError` differ only in what a try catches."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, self.key, rollback=self.undo)
            ctx.step("hotel", self.refuse)

        def refuse(self):
            raise {"critical": CriticalError, "rollback": RollbackError}[self.key]("full")

    for key in ("critical", "rollback"):
        trip = Trip.create(key)
        assert drive(trip) == "failed"

    assert outside == ["do critical", "undo critical", "do rollback", "undo rollback"]
