"""ROLLBACK: steps of loops, whose history is pruned as they go."""

import pytest

from django_rivet import workflow
from django_rivet.models import Compensation
from django_rivet.testing import drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def test_rollback_17_steps_of_the_current_iteration_are_undone(outside):
    """Differs on purpose from the reference, where no handler inside a loop ever runs."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days"):
                turn.rollback_checkpoint("day")
                turn.step("museum", self.do, f"museum {turn.iteration}", rollback=self.undo)
                turn.step("dinner", self.fail if turn.iteration == 1 else self.do, "dinner")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do museum 0", "do dinner", "do museum 1", "undo museum 1"]


def test_rollback_17_steps_of_earlier_iterations_are_undone_under_an_outer_checkpoint(outside):
    """Differs on purpose: ended iterations, of either form of loop, are in the scope of a checkpoint before it."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for turn in ctx.loop("days"):
                turn.step("museum", self.do, f"museum {turn.iteration}", rollback=self.undo)
                if turn.iteration == 1:
                    break
            ctx.loop("nights", self.night)
            ctx.step("home", self.fail)

        def night(self, turn):
            turn.step("hotel", self.do, f"hotel {turn.iteration}", rollback=self.undo)
            assert turn.iteration < 1, "the second night is one too many"

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[4:] == ["undo hotel 1", "undo hotel 0", "undo museum 1", "undo museum 0"]


def test_rollback_18_an_iteration_that_owes_a_handler_is_not_forgotten(outside):
    """Differs on purpose from the reference, where pruning drops handlers: what is owed keeps its history.

    So do the iterations behind it, which are replayed should that one run again.
    """

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for turn in ctx.loop("days", history_prune_interval=1):
                if turn.iteration % 2:
                    turn.step("museum", self.do, turn.iteration, rollback=self.undo)
                else:
                    turn.step("walk", self.do, turn.iteration)
                if turn.iteration == 5:
                    break
            ctx.step("home", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[6:] == ["undo 5", "undo 3", "undo 1"]
    steps = [entry.path for entry in trip.history() if entry.kind == "step"]
    assert "days/0/walk" not in steps
    assert steps == ["days/1/museum", "days/2/walk", "days/3/museum", "days/4/walk", "days/5/museum", "home"]


def test_rollback_18_an_iteration_whose_handlers_are_settled_is_forgotten_with_them(outside):
    """Differs on purpose: once the scope has ended well nothing is owed, and history is pruned as ever."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days", history_prune_interval=1):
                turn.rollback_checkpoint("day")
                turn.step("museum", self.do, turn.iteration, rollback=self.undo)
                if turn.iteration == 4:
                    turn.step("dinner", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[5:] == ["undo 4"]
    assert {entry.path for entry in trip.history() if entry.kind == "step"} == {
        "days/3/museum",
        "days/4/museum",
        "days/4/dinner",
    }


def test_rollback_18_a_settled_handler_leaves_no_debt_behind_when_its_iteration_is_forgotten(outside):
    """Differs on purpose: also where nothing was committed between the end of an iteration and its pruning."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days", history_prune_interval=1):
                turn.rollback_checkpoint("day")
                if turn.iteration == 0:
                    turn.step("museum", self.do, "museum", rollback=self.undo)
                if turn.iteration == 4:
                    break

    trip = Trip.create("one")

    assert drive(trip) == "completed"

    assert not Compensation.objects.filter(status="owed").exists()
