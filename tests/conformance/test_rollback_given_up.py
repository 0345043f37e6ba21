"""ROLLBACK: what becomes of the older handlers, and of the workflow, when one handler is given up."""

import pytest

from django_rivet import workflow
from django_rivet.testing import advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def hotel_of(outside, answers):
    """A base for actors one of whose handlers fails while ``answers`` is empty."""

    class Hotel(undoable(outside)):
        class Meta:
            abstract = True

        def undo_if_it_answers(self, rollback, thing):
            if not answers:
                outside.append(f"no answer, attempt {rollback.attempt}")
                raise OSError("hotel does not answer")
            self.undo(rollback, thing)

    return Hotel


def undo_states(handle):
    """Name and state of each handler on record."""
    return {entry.name: entry.rollback.status for entry in handle.history() if entry.rollback}


def test_rollback_13_with_continue_older_handlers_run_after_one_was_given_up(outside):
    """Differs on purpose: `on_handler_failure="continue"` undoes what can be undone, and asks for people at the end."""
    answers = []

    class Trip(hotel_of(outside, answers)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip", on_handler_failure="continue")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_if_it_answers, rollback_max_retries=1)
            ctx.step("car", self.do, "C-3", rollback=self.undo)
            ctx.step("home", self.fail, "no way home")

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert outside[3:] == ["undo C-3", "no answer, attempt 1"], "older ones wait for the retries"
    advance(1)
    assert drive(trip) == "rollback_failed"

    assert outside[3:] == ["undo C-3", "no answer, attempt 1", "no answer, attempt 2", "undo F-1"]
    assert undo_states(trip) == {"flight": "completed", "hotel": "failed", "car": "completed"}
    assert str(trip.error) == "CriticalError: no way home"

    answers.append("yes")
    trip.recover()
    assert drive(trip) == "failed"
    assert outside[7:] == ["undo H-2"]
    assert str(trip.history()).splitlines()[-3:] == [
        "car  rolled back  1 attempt",
        "hotel  rolled back  1 attempt",
        "flight  rolled back  1 attempt",
    ]


def test_rollback_13_a_checkpoint_says_so_for_the_steps_after_it(outside):
    """Differs on purpose: each step keeps the word of the checkpoint that was the last one when it completed."""

    class Trip(hotel_of(outside, [])):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("careful")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_if_it_answers, rollback_max_retries=0)
            ctx.rollback_checkpoint("careless", on_handler_failure="continue")
            ctx.step("tour", self.do, "T-3", rollback=self.undo_if_it_answers, rollback_max_retries=0)
            ctx.step("home", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "rollback_failed"

    assert undo_states(trip) == {"flight": "owed", "hotel": "failed", "tour": "failed"}


def test_rollback_13_an_unknown_word_for_a_failing_handler_is_refused(outside):
    """Differs on purpose: `on_handler_failure` is "stop" or "continue", and the error says so."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip", on_handler_failure="ignore")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.error.name == "InvalidStepError"
    assert "'stop' or 'continue', not 'ignore'" in trip.error.message


def test_rollback_13_a_block_whose_handler_is_given_up_waits_in_rollback_failed(outside):
    """Differs on purpose: a scoped block cannot give its outcome while it owes; `recover()` lets the workflow go on."""
    answers = []

    class Trip(hotel_of(outside, answers)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            result = ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("note", self.do, result.failure.error.message)
            return "home"

        def stay(self, block):
            block.step("parking", self.do, "P-1", rollback=self.undo)
            block.step("room", self.do, "R-1", rollback=self.undo_if_it_answers, rollback_max_retries=1)
            block.step("breakfast", self.fail, "no eggs")

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert trip.error is None, "the workflow has not failed"
    advance(1)
    assert drive(trip) == "rollback_failed"
    assert str(trip.error) == "OSError: hotel does not answer"
    assert undo_states(trip) == {"flight": "owed", "parking": "owed", "room": "failed"}

    answers.append("yes")
    assert trip.recover()
    assert drive(trip) == "completed"

    assert outside == [
        *("do F-1", "do P-1", "do R-1", "no answer, attempt 1", "no answer, attempt 2"),
        *("undo R-1", "undo P-1", "do no eggs"),
    ]
    assert (trip.output, trip.error) == ("home", None)
    assert undo_states(trip) == {"flight": "settled", "parking": "completed", "room": "completed"}


def test_rollback_13_with_continue_a_block_undoes_what_it_can(outside):
    """Differs on purpose: the older handlers of the block run, and the block still waits for people."""
    answers = []

    class Trip(hotel_of(outside, answers)):
        @workflow
        def run(self, ctx):
            ctx.try_block("stay", self.stay, rollback=True)

        def stay(self, block):
            block.rollback_checkpoint("stay", on_handler_failure="continue")
            block.step("parking", self.do, "P-1", rollback=self.undo)
            block.step("room", self.do, "R-1", rollback=self.undo_if_it_answers, rollback_max_retries=0)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")

    assert drive(trip) == "rollback_failed"
    assert undo_states(trip) == {"parking": "completed", "room": "failed"}
    answers.append("yes")
    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["do P-1", "do R-1", "no answer, attempt 1", "undo P-1", "undo R-1"]


def test_rollback_13_a_block_in_rollback_failed_can_be_recovered_again_and_again(outside):
    """Differs on purpose: each `recover()` is one more set of attempts, and nothing else is repeated."""

    class Trip(hotel_of(outside, [])):
        @workflow
        def run(self, ctx):
            outside.append("pass")
            ctx.try_block("stay", self.stay, rollback=True)

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("room", self.do, "R-1", rollback=self.undo_if_it_answers, rollback_max_retries=0)
            block.step("breakfast", self.fail)

    trip = Trip.create("one")
    drive(trip)

    for _ in range(2):
        assert trip.recover()
        assert drive(trip) == "rollback_failed"

    assert outside == ["pass", "do R-1", *["no answer, attempt 1", "pass"] * 2, "no answer, attempt 1"]


def test_rollback_12_the_pause_of_a_blocks_handler_is_kept_over_workers(outside):
    """Differs on purpose: a block's handler that waits for its retry leaves the actor `rolling_back`, due by itself."""
    answers = []

    class Trip(hotel_of(outside, answers)):
        @workflow
        def run(self, ctx):
            assert not ctx.try_block("stay", self.stay, rollback=True).ok

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step(
                "room",
                self.do,
                "R-1",
                rollback=self.undo_if_it_answers,
                rollback_backoff_base=50,
                rollback_backoff_max=200,
                retry_jitter=0,
            )
            block.step("breakfast", self.fail)

    trip = Trip.create("one")

    drive(trip)
    due = trip.wake_at
    advance(50)
    assert drive(trip) == "rolling_back"
    assert trip.wake_at == due
    answers.append("yes")
    advance(51)
    assert drive(trip) == "completed"

    assert outside == ["do R-1", "no answer, attempt 1", "undo R-1"]
