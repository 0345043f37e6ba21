"""`replay_from()`: what is owed before and after it, and which blocks are entered again."""

from __future__ import annotations

from typing import Any

import pytest

from django_rivet import (
    NotReplayableError,
    workflow,
)
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db


def test_a_completed_workflow_owes_again_what_stands_before_the_step(
    trip: Any, outside: list[str], broken: set[str]
) -> None:
    """Its scope had ended well, and is open again: a failure undoes what is left of it, and nothing else."""
    handle = trip.create("one")
    drive(handle)
    advance(61)
    assert drive(handle) == "completed"
    broken.add("hotel")

    handle.replay_from("hotel")
    assert drive(handle) == "failed"

    assert outside == ["flight", "hotel", "car", "undo flight"]
    assert {e.name: e.rollback.status for e in handle.history(generation=0) if e.rollback} == {
        "flight": "completed",
        "hotel": "settled",
        "car": "settled",
    }


def test_what_was_set_aside_is_not_owed(trip: Any) -> None:
    """An actor that has nothing else to undo can be destroyed."""
    handle = trip.create("one")
    drive(handle)

    handle.replay_from()

    handle.destroy()


def test_a_step_that_runs_again_is_undone_once(trip: Any, outside: list[str]) -> None:
    """With its key it has one effect, and one handler."""
    handle = trip.create("one")
    drive(handle)

    handle.replay_from("flight")
    drive(handle)
    handle.cancel(rollback=True)

    assert drive(handle) == "cancelled"
    assert outside == ["flight", "hotel"] * 2 + ["undo hotel", "undo flight"]


def test_the_order_of_an_earlier_iteration_stays(trips: Any, outside: list[str], broken: set[str]) -> None:
    """Only the iteration around the step is open again; what others have settled is settled."""

    class Shop(trips):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                number = turn.iteration
                turn.rollback_checkpoint("order")
                turn.step("reserve", self.do, f"reserve {number}", rollback=self.undo)
                turn.step("charge", self.do, f"charge {number}")
                if number == 2:
                    break

    handle = Shop.create("one")
    assert drive(handle) == "completed"
    outside.clear()
    broken.add("charge 1")

    handle.replay_from("orders/1/charge")

    assert drive(handle) == "failed"
    assert outside == ["undo reserve 1"]


def test_handlers_run_in_the_order_of_the_new_run(trip: Any, outside: list[str], broken: set[str]) -> None:
    """Newest first, also where some steps begin a new run under another key."""
    broken.add("car")
    handle = trip.create("one")
    drive(handle)
    advance(61)
    assert drive(handle) == "failed"
    outside.clear()

    handle.replay_from("hotel")
    drive(handle)
    advance(61)

    assert drive(handle) == "failed"
    assert outside == ["flight", "hotel", "undo hotel", "undo flight"]


@pytest.fixture
def blocks(trips: Any) -> Any:
    class Blocks(trips):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("trip", self.book, rollback=True)
            ctx.step("report", self.do, f"report {result.ok}")

        def book(self, block):
            block.rollback_checkpoint("trip")
            block.step("flight", self.do, "flight", rollback=self.undo, rollback_max_retries=0)
            block.step("hotel", self.do, "hotel", rollback=self.undo)
            block.step("car", self.do, "car")

    return Blocks


def test_a_failed_block_is_entered_again_from_its_step(blocks: Any, outside: list[str], broken: set[str]) -> None:
    """What was undone in front of the step runs again: nothing is built on what is not there."""
    broken.add("car")
    handle = blocks.create("one")
    assert drive(handle) == "completed"
    assert outside == ["flight", "hotel", "undo hotel", "undo flight", "report False"]
    outside.clear()
    broken.clear()

    handle.replay_from("trip/car")

    assert drive(handle) == "completed"
    assert outside == ["flight", "hotel", "car", "report True"]


def test_behind_a_failed_block_its_outcome_stays(blocks: Any, outside: list[str], broken: set[str]) -> None:
    """It was given to the workflow."""
    broken.add("car")
    handle = blocks.create("one")
    drive(handle)
    outside.clear()
    broken.clear()

    handle.replay_from("report")

    assert drive(handle) == "completed"
    assert outside == ["report False"]


def test_a_block_that_is_being_undone_is_undone_first(blocks: Any, broken: set[str]) -> None:
    """A rollback that has begun is brought to its end."""
    broken |= {"car", "undo flight"}
    handle = blocks.create("one")
    assert drive(handle) == "rollback_failed"
    handle.recover()

    with pytest.raises(NotReplayableError, match="is not over"):
        handle.replay_from("trip/hotel")


def test_a_block_that_ended_well_owes_again_what_it_did(blocks: Any, outside: list[str], broken: set[str]) -> None:
    """It may fail this time, and is undone then."""
    handle = blocks.create("one")
    assert drive(handle) == "completed"
    outside.clear()
    broken.add("hotel")

    handle.replay_from("trip/hotel")

    assert drive(handle) == "completed"
    assert outside == ["undo flight", "report False"]
