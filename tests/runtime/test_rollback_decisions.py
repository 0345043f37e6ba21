"""A rollback handler is out of attempts: an operator retries it, skips it, or marks it done by hand."""

from __future__ import annotations

import uuid
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_rivet import (
    Actor,
    CriticalError,
    InvalidInputError,
    RollbackNotFailedError,
    WorkflowFinishedError,
    WorkflowInFlightError,
    workflow,
)
from django_rivet.store.runs import claim
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db

DECISIONS = ["retry", "skip", "confirm"]


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@pytest.fixture
def closed() -> set[str]:
    """What refuses to be undone."""
    return {"hotel"}


@pytest.fixture
def trips(closed: set[str]) -> Any:
    """Books a flight, a hotel and a car, cannot go home, and undoes; what it does is in the state."""

    class Trip(Actor):
        class State:
            log: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip", on_handler_failure="continue" if self.key == "goes on" else "stop")
            for name in ("flight", "hotel", "car"):
                ctx.step(name, self.do, name, rollback=self.undo, rollback_max_retries=0)
            ctx.step("home", self.fail)

        def do(self, name):
            self.state.log.append(name)

        def undo(self, rollback, output):
            name = rollback.args[0]
            if name in closed:
                raise OSError(f"{name} is closed")
            self.state.log.append(f"undo {name}")

        def fail(self):
            if "home" not in closed:
                raise CriticalError("no way home")

    return Trip


def decide(handle: Any, decision: str, path: str = "hotel") -> bool:
    if decision == "retry":
        return bool(handle.retry_rollback(path))
    if decision == "skip":
        return bool(handle.skip_rollback(path, "they keep it", by="anna"))
    return bool(handle.confirm_rollback(path, "called them", by="anna"))


def test_a_retried_handler_gets_fresh_attempts_and_the_rollback_goes_on(trips: Any, closed: set[str]) -> None:
    """First it, then the older ones; then the workflow is `failed` with the error that it failed with."""
    trip = trips.create("one")
    assert drive(trip) == "rollback_failed"
    closed.clear()

    assert trip.retry_rollback("hotel")
    assert trip.status == "rolling_back"

    assert drive(trip) == "failed"
    assert str(trip.error) == "CriticalError: no way home"
    assert trip.state.log[3:] == ["undo car", "undo hotel", "undo flight"]
    assert trip.history()["hotel"].rollback.attempts == 1


def test_a_retried_handler_may_fail_again(trips: Any) -> None:
    """It is the same decision again then; the older ones wait."""
    trip = trips.create("one")
    drive(trip)

    assert trip.retry_rollback("hotel")

    assert drive(trip) == "rollback_failed"
    assert trip.state.log[3:] == ["undo car"]
    assert str(trip.history()["hotel"].rollback.error) == "OSError: hotel is closed"


@pytest.mark.parametrize(
    ("decision", "status", "line"),
    [
        (
            "skip",
            "skipped",
            "hotel  rollback skipped  1 attempt  OSError: hotel is closed  they keep it (anna)",
        ),
        ("confirm", "confirmed", "hotel  rolled back by hand  1 attempt  OSError: hotel is closed  called them (anna)"),
    ],
)
def test_what_a_person_decided_is_not_run_and_the_older_ones_are(
    trips: Any, decision: str, status: str, line: str
) -> None:
    """The history says what was decided, why and by whom, and never that it was rolled back."""
    trip = trips.create("one")
    drive(trip)

    assert decide(trip, decision)

    assert drive(trip) == "failed"
    assert trip.state.log[3:] == ["undo car", "undo flight"]
    rollback = trip.history()["hotel"].rollback
    assert (rollback.status, rollback.decided_by) == (status, "anna")
    assert rollback.ended_at is not None
    assert line in str(trip.history()).splitlines()
    assert "hotel  rolled back  " not in str(trip.history())


def test_what_was_skipped_does_not_run_again_after_recover(trips: Any, closed: set[str]) -> None:
    """What its step did stands, so it is not done twice; what was undone, by a handler or by hand, is done again."""
    trip = trips.create("skipped")
    drive(trip)
    trip.skip_rollback("hotel", "it is paid for")
    drive(trip)
    by_hand = trips.create("by hand")
    drive(by_hand)
    by_hand.confirm_rollback("hotel", "called them")
    drive(by_hand)
    closed.add("home")

    for each in (trip, by_hand):
        assert each.recover()
        assert drive(each) == "completed"

    assert trip.state.log == ["flight", "hotel", "car", "undo car", "undo flight", "flight", "car"]
    assert by_hand.state.log == ["flight", "hotel", "car", "undo car", "undo flight", "flight", "hotel", "car"]


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_cancellation_goes_on_and_ends_cancelled(trips: Any, closed: set[str], decision: str) -> None:
    """Its rollback stood still, and it is not forgotten that it was one."""

    class Waiting(trips):
        def fail(self):
            pass

        @workflow
        def run(self, ctx):
            trips.definition.workflow.function(self, ctx)
            ctx.sleep("night", 60)

    trip = Waiting.create("one")
    drive(trip)
    trip.cancel(rollback=True)
    assert drive(trip) == "rollback_failed"
    closed.clear()

    assert decide(trip, decision)

    assert drive(trip) == "cancelled"
    assert trip.state.log[-1] == "undo flight"
    assert trip.error is None


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_block_is_undone_to_its_end_and_the_workflow_lives_on(trips: Any, closed: set[str], decision: str) -> None:
    """The workflow itself has not failed."""

    class Blocks(trips):
        @workflow
        def run(self, ctx):
            ctx.try_block("trip", lambda block: trips.definition.workflow.function(self, block), rollback=True)
            ctx.step("after", self.do, "after")

    trip = Blocks.create("one")
    assert drive(trip) == "rollback_failed"
    closed.clear()

    assert decide(trip, decision, "trip/hotel")
    assert drive(trip) == "completed"

    assert trip.state.log[-2:] == ["undo flight", "after"]


@pytest.mark.parametrize("decision", DECISIONS)
def test_with_two_failed_handlers_each_is_decided_by_itself(trips: Any, closed: set[str], decision: str) -> None:
    """Where handlers do not stop the older ones: the actor stays `rollback_failed` until the last is decided."""
    closed.add("flight")
    trip = trips.create("goes on")
    assert drive(trip) == "rollback_failed"
    assert trip.state.log[3:] == ["undo car"]
    closed.clear()

    assert decide(trip, decision, "hotel")
    assert drive(trip) == "rollback_failed"
    assert trip.history()["flight"].rollback.status == "failed"

    assert decide(trip, "skip", "flight")
    assert drive(trip) == "failed"


def test_a_second_call_changes_nothing(trips: Any) -> None:
    """It says False, and the first note stays."""
    trip = trips.create("one")
    drive(trip)

    assert trip.skip_rollback("hotel", "first", by="anna")
    assert not trip.skip_rollback("hotel", "second", by="bert")
    drive(trip)
    assert not trip.skip_rollback("hotel", "third")

    rollback = trip.history()["hotel"].rollback
    assert (rollback.note, rollback.decided_by) == ("first", "anna")


def test_a_second_retry_changes_nothing(trips: Any) -> None:
    """It is going to run anyway."""
    trip = trips.create("one")
    drive(trip)

    assert [trip.retry_rollback("hotel"), trip.retry_rollback("hotel")] == [True, False]
    assert not trip.retry_rollback("flight")


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize(("path", "reason"), [("car", "it is completed"), ("nowhere", "owes no rollback handler")])
def test_what_has_not_failed_is_not_decided(trips: Any, decision: str, path: str, reason: str) -> None:
    """The error names those that have."""
    trip = trips.create("one")
    drive(trip)

    with pytest.raises(RollbackNotFailedError, match=rf"{reason}; those that failed are 'hotel'"):
        decide(trip, decision, path)

    assert drive(trip) == "rollback_failed"


@pytest.mark.parametrize(("first", "second"), [("skip", "confirm"), ("confirm", "skip"), ("skip", "retry")])
def test_a_decision_is_not_replaced_by_another(trips: Any, first: str, second: str) -> None:
    """What was decided may have been acted upon."""
    trip = trips.create("one")
    drive(trip)
    decide(trip, first)

    with pytest.raises(RollbackNotFailedError, match="none of them has failed"):
        decide(trip, second)


@pytest.mark.parametrize("decision", ["skip", "confirm"])
def test_after_a_plain_cancellation_what_is_left_can_be_settled(trips: Any, decision: str) -> None:
    """It is over, so nothing runs, and a retry is refused; but people can note what they did about it."""
    trip = trips.create("one")
    drive(trip)
    trip.cancel()

    with pytest.raises(WorkflowFinishedError, match="undo step 'hotel' by hand"):
        trip.retry_rollback("hotel")
    assert decide(trip, decision)

    assert drive(trip) == "cancelled"
    assert trip.state.log[3:] == ["undo car"]


@pytest.mark.parametrize("decision", DECISIONS)
def test_while_a_worker_drives_the_actor_nothing_is_decided(trips: Any, closed: set[str], decision: str) -> None:
    """It might be about to write something else."""
    closed.add("flight")
    trip = trips.create("goes on")
    drive(trip)
    trip.retry_rollback("flight")
    assert claim(uuid.UUID(trip.id), "a worker", 10) is not None

    with pytest.raises(WorkflowInFlightError):
        decide(trip, decision)

    # Its worker dies; from then on it can be decided, and it is not undone by the dead one.
    advance(60)
    closed.clear()
    assert decide(trip, decision)
    assert drive(trip) == "failed"
    assert trip.state.log[-1] == "undo flight"


@pytest.mark.parametrize("text", ["", "  ", None, "a\0b", "\ud800", "x" * 2001])
def test_a_decision_needs_a_reason_that_can_be_read(trips: Any, text: Any) -> None:
    """Refused with the name of the argument; nothing was decided."""
    trip = trips.create("one")
    drive(trip)

    with pytest.raises(InvalidInputError, match="reason must"):
        trip.skip_rollback("hotel", text)
    with pytest.raises(InvalidInputError, match="note must"):
        trip.confirm_rollback("hotel", text)
    with pytest.raises(InvalidInputError, match="by must"):
        trip.confirm_rollback("hotel", "called them", by="x" * 256)

    assert trip.history()["hotel"].rollback.status == "failed"


@pytest.mark.parametrize("decision", DECISIONS)
def test_obeys_the_callers_transaction(trips: Any, decision: str) -> None:
    """Rolled back, nobody has decided anything."""
    trip = trips.create("one")
    drive(trip)

    with transaction.atomic():
        decide(trip, decision)
        transaction.set_rollback(True)

    assert trip.status == "rollback_failed"
    assert trip.history()["hotel"].rollback.status == "failed"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_survives_a_crash_at_every_commit_behind_it(
    trips: Any, closed: set[str], decision: str, after: bool
) -> None:
    """It is on record before the worker begins, and each handler has its effect once."""
    for n in count(1):
        closed.add("hotel")
        trip = trips.create(str(n))
        drive(trip)
        closed.clear()
        assert decide(trip, decision)

        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive(trip)

        assert drive(trip) == "failed", n
        hotel = ["undo hotel"] if decision == "retry" else []
        assert trip.state.log[3:] == ["undo car", *hotel, "undo flight"], n
        if not point.crashed:
            assert n >= 4
            return


@pytest.mark.django_db(transaction=True)
def test_of_many_who_decide_at_once_one_does(trips: Any) -> None:
    """The others are told that it was decided, or that it is no more to be decided."""
    trip = trips.create("one")
    drive(trip)

    def try_to(n: int) -> Any:
        with suppress(RollbackNotFailedError):
            return decide(trip, DECISIONS[1 + n % 2])

    assert [answer for answer in at_once(6, try_to) if answer] == [True]
    assert drive(trip) == "failed"


def test_the_async_twins_do_the_same(trips: Any, closed: set[str]) -> None:
    """`aretry_rollback`, `askip_rollback` and `aconfirm_rollback`."""
    closed.add("flight")
    trip = trips.create("goes on")
    drive(trip)

    async def operate() -> list[bool]:
        return [
            await trip.aretry_rollback("hotel"),
            await trip.aretry_rollback("hotel"),
            await trip.askip_rollback("flight", "paid", by="anna"),
        ]

    assert async_to_sync(operate)() == [True, False, True]
    assert drive(trip) == "rollback_failed"
    assert async_to_sync(trip.aconfirm_rollback)("hotel", "called them", by="bert")
    assert drive(trip) == "failed"
