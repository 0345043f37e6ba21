"""A cancellation that was accepted while the workflow failed is carried out."""

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
