"""Cancellations at awkward moments: what was accepted is carried out, and what began to be undone is undone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_rivet import Actor, CriticalError, workflow
from django_rivet.testing import drive, isolated_actors
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.mark.parametrize("rollback", [False, True])
def test_a_cancellation_during_the_last_body_is_not_lost(rollback: bool) -> None:
    """The body fails the workflow, which asks for no further entry: it is cancelled all the same."""
    answers = []

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.fly, atomic=False)

        def fly(self):
            answers.append(Trip.get("one").cancel(rollback=rollback))
            raise CriticalError("no plane")

    trip = Trip.create("one")

    assert drive(trip) == "cancelled"

    assert answers == [True]
    assert trip.error is None


@pytest.mark.parametrize("rollback", [False, True])
def test_a_cancellation_after_the_last_record_is_not_lost(rollback: bool) -> None:
    """It comes while the workflow's own code is about to fail, of which nothing is on record yet."""
    answers: list[Any] = []

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("flight", int)
            answers.extend(at_once(1, lambda n: Trip.get("one").cancel(rollback=rollback)))
            raise CriticalError("lost the way")

    trip = Trip.create("one")

    assert drive(trip) == "cancelled"

    assert answers == [True]
    assert trip.error is None


def test_a_cancellation_right_after_recover_lets_a_block_be_undone_to_its_end() -> None:
    """The handlers have their fresh attempts, and only then is the workflow cancelled."""
    log: list[str] = []
    doors: list[str] = []

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("home", log.append, "home")

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("parking", int, rollback=self.undo)
            block.step("room", int, rollback=self.undo, rollback_max_retries=0)
            block.step("breakfast", self.fail)

        def undo(self, rollback, output):
            if not doors:
                raise OSError("closed")
            log.append("undone")

        def fail(self):
            raise CriticalError("no eggs")

    # Given a block whose rollback stands still, until an operator lets it go on
    trip = Trip.create("one")
    assert drive(trip) == "rollback_failed"
    doors.append("open")
    trip.recover()

    # When another one cancels before a worker is there
    assert trip.cancel()

    # Then nothing is left half undone
    assert drive(trip) == "cancelled"
    assert log == ["undone", "undone"]
