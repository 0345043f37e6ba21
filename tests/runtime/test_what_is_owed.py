"""What is owed is undone, whatever else went wrong with the failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_rivet import Actor, Continue, CriticalError, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.fixture
def log() -> list[str]:
    """What was done in the world outside."""
    return []


@pytest.fixture
def trips(log: list[str]) -> Iterator[type[Actor]]:
    """A base for actors that book and give back."""
    with isolated_actors():

        class Trips(Actor[Any]):
            class Meta:
                abstract = True

            def book(self, thing):
                log.append(f"book {thing}")

            def give_back(self, rollback, output):
                log.append(f"give back {rollback.args[0]}")

        yield Trips


@pytest.mark.parametrize("form", ["iterator", "function"])
def test_an_iteration_whose_state_cannot_be_stored_is_undone(trips: type[Actor], log: list[str], form: str) -> None:
    """It did not end well, so its steps are not settled: they are undone with the workflow's failure."""

    class Trip(trips):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            if form == "function":
                ctx.loop("nights", self.night, state=0)
            else:
                for turn in ctx.loop("nights", state=0):
                    turn.state = self.night(turn, turn.state).state

        def night(self, turn, state):
            turn.rollback_checkpoint("night")
            turn.step("room", self.book, "room", rollback=self.give_back)
            return Continue(object())

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.error.name == "OutputNotSerializableError"
    assert log == ["book room", "give back room"]


def test_an_error_with_a_number_that_cannot_be_stored_is_recorded_without_it(
    trips: type[Actor], log: list[str]
) -> None:
    """Error values come from outside: what does not fit the record must not keep the failure from being one."""

    class SoldOutError(CriticalError):
        def __init__(self):
            super().__init__("sold out")
            self.left, self.price = 0, 10**5000

    class Trip(trips):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("room", self.book, "room", rollback=self.give_back)
            ctx.step("flight", self.fly)

        def fly(self):
            raise SoldOutError

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert trip.history()["flight"].error.metadata == {"left": 0}
    assert log == ["book room", "give back room"]


def test_a_cancellation_with_rollback_undoes_what_a_mistake_left_owed(trips: type[Actor], log: list[str]) -> None:
    """A mistake in the code undoes nothing by itself; an operator who asks for it gets it."""

    class Trip(trips):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("room", self.book, "room", rollback=self.give_back)
            ctx.step("flight", self.book, "flight", no_such_option=1)

    trip = Trip.create("one")
    assert drive(trip) == "failed"
    assert log == ["book room"]

    assert trip.cancel(rollback=True)

    assert drive(trip) == "cancelled"
    assert log == ["book room", "give back room"]
