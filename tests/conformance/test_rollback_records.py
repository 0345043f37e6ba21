"""ROLLBACK: handlers are found in the records, not by running the workflow again."""

import pytest

from django_rivet import Queue, workflow
from django_rivet.testing import advance, drive, isolated_actors
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def test_rollback_15_no_workflow_code_runs_during_a_rollback(outside):
    """Differs on purpose from the reference, which runs the function a second time to find the handlers."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            outside.append("code before the flight")
            ctx.step("flight", self.do, "F-1", rollback=self.undo_at_the_second_try)
            outside.append("code after the flight")
            ctx.step("hotel", self.fail)

        def undo_at_the_second_try(self, rollback, thing):
            if rollback.attempt == 1:
                raise OSError("busy")
            self.undo(rollback, thing)

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    advance(1)
    assert drive(trip) == "failed"

    assert outside == ["code before the flight", "do F-1", "code after the flight", "undo F-1"]


@pytest.mark.parametrize("trying", ["try_step", "try_block"])
def test_rollback_16_steps_after_a_caught_failure_are_undone_too(outside, trying):
    """Differs on purpose from the reference, which stops looking at the first step that did not complete."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            getattr(self, trying)(ctx)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo)
            ctx.step("car", self.fail)

        def try_step(self, ctx):
            assert not ctx.try_step("upgrade", self.fail).ok

        def try_block(self, ctx):
            assert not ctx.try_block("upgrade", lambda block: block.step("class", self.fail)).ok

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do F-1", "do H-2", "undo H-2", "undo F-1"]


def test_rollback_21_steps_of_a_block_that_succeeded_are_undone_in_their_place(outside):
    """Steps of a plain block and of a scoped one run their handlers in reverse order of completion, like any."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.try_block("plain", lambda block: block.step("hotel", self.do, "H-2", rollback=self.undo))
            ctx.try_block("scoped", lambda block: block.step("car", self.do, "C-3", rollback=self.undo), rollback=True)
            ctx.step("tour", self.do, "T-4", rollback=self.undo)
            ctx.step("home", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[4:] == ["undo T-4", "undo C-3", "undo H-2", "undo F-1"]


def test_rollback_22_a_checkpoint_counts_for_the_scopes_below_it(outside):
    """What stands in a block in an iteration of a loop in a block may have handlers, by a checkpoint at the root."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.try_block("week", lambda week: week.loop("days", self.day))
            ctx.step("home", self.fail)

        def day(self, turn):
            turn.try_block("evening", self.evening)
            assert turn.iteration < 1, "two days are enough"

        def evening(self, block):
            block.step("theatre", self.do, block.scope.path, rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[2:] == ["undo week/days/1/evening", "undo week/days/0/evening"]


@pytest.mark.parametrize("inside", ["in_block", "in_scoped_block", "in_iteration"])
def test_rollback_22_a_checkpoint_inside_a_scope_does_not_count_outside(outside, inside):
    """After a block or a loop with a checkpoint in it, the scope around still has none."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            getattr(self, inside)(ctx)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo)

        def in_block(self, ctx):
            ctx.try_block("flight", lambda block: block.rollback_checkpoint("flight"))

        def in_scoped_block(self, ctx):
            ctx.try_block("flight", lambda block: block.rollback_checkpoint("flight"), rollback=True)

        def in_iteration(self, ctx):
            for turn in ctx.loop("flights"):
                if turn.iteration == 1:
                    break
                turn.rollback_checkpoint("flight")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.error.name == "RollbackCheckpointError"
    assert outside == []


def test_rollback_23_a_checkpoint_is_an_entry_and_opens_the_scope_it_stands_in(outside):
    """Differs on purpose from the reference, where it only unlocks handlers: it opens a scope.

    A second one in the same scope opens nothing new: all steps of that scope are undone.
    """

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("way out")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.rollback_checkpoint("way back")
            ctx.step("train", self.do, "T-2", rollback=self.undo)
            ctx.step("taxi", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside[2:] == ["undo T-2", "undo F-1"]
    assert [e.path for e in trip.history() if e.kind == "checkpoint"] == ["way out", "way back"]


def test_rollback_23_the_name_of_a_checkpoint_is_taken(outside):
    """Differs on purpose only in scopes: the same name twice in one scope is a mistake there and here."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("trip", self.do, "F-1", rollback=self.undo)

    trip = Trip.create("one")

    drive(trip)

    assert trip.error.name == "HistoryDivergedError"
    assert outside == []


def test_rollback_24_a_handler_that_a_deploy_took_away_ends_in_rollback_failed(outside):
    """Differs on purpose from the reference, where the handler is dropped and the rollback counts as done."""

    class Trip(undoable(outside)):
        answers = Queue()

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.give_back_room)
            ctx.queue.next("answer", ["answers"])

        def give_back_room(self, rollback, thing):
            self.undo(rollback, thing)

    trip = Trip.create("one")
    drive(trip)

    with isolated_actors():

        class Trip(undoable(outside)):
            @workflow
            def run(self, ctx):
                raise AssertionError("a rollback runs no workflow code")

        trip.cancel(rollback=True)
        assert drive(trip) == "rollback_failed"

    record = trip.history()["hotel"].rollback
    assert (record.status, record.error.name) == ("failed", "RollbackHandlerError")
    assert "give_back_room" in record.error.message
    assert trip.history()["flight"].rollback.status == "owed"
    assert outside == ["do F-1", "do H-2"]


def test_rollback_25_compensated_steps_run_again_after_recover(outside):
    """Differs on purpose from the reference, which replays what was undone as if it had its effect still."""
    confirmed = []

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("seat", self.do, "S-9")
            ctx.step("confirm", self.confirm)

        def confirm(self):
            if not confirmed:
                self.fail()

    trip = Trip.create("one")

    assert drive(trip) == "failed"
    assert drive(trip) == "failed", "a failed workflow does not run by itself"
    confirmed.append("yes")
    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["do F-1", "do S-9", "undo F-1", "do F-1"]
