"""A drive that did not end by itself: iterations that had ended without being on record as ended stay done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from django_rivet import Actor, CriticalError, workflow
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors
from tests.runtime.faults import FENCE, LOST, ROLLBACK_BEGINS, failing

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def log() -> list[str]:
    """What was done in the world outside."""
    return []


@pytest.fixture
def shop(log: list[str]) -> Iterator[type[Actor]]:
    """Each order is an iteration with a checkpoint of its own: once the next one has begun it is settled."""
    with isolated_actors():

        class Shop(Actor[Any]):
            class Meta:
                abstract = True

            def take(self, number):
                log.append(f"take {number}")

            def give_back(self, rollback, output):
                log.append(f"give back {rollback.args[0]}")

        yield Shop


def test_a_rollback_whose_beginning_was_not_recorded_finds_ended_iterations_settled(
    shop: type[Actor], log: list[str]
) -> None:
    """The database fails when the failure is to be written down: the next drive fails again, and undoes one order."""

    # Given an order that had ended, of which nothing on record says so yet
    class Orders(shop):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                is_last = turn.iteration == 1
                turn.step("take", self.take, turn.iteration, rollback=self.give_back, ephemeral=is_last)
                if is_last:
                    raise CriticalError("no more")

    orders = Orders.create("one")

    # When the connection breaks as the rollback begins
    with failing(ROLLBACK_BEGINS, LOST), pytest.raises(DatabaseFailedError):
        drive(orders)
    assert log == ["take 0", "take 1"]
    advance(60)

    # Then it is the workflow that goes on, and the order that had ended stays
    assert drive(orders) == "failed"
    assert log[2:] == ["take 1", "give back 1"]


def test_a_cancellation_after_the_database_failed_finds_ended_iterations_settled(
    shop: type[Actor], log: list[str]
) -> None:
    """Given back in order, but with what it had noted lost: the drive counts as cut off all the same."""

    class Orders(shop):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                turn.step("take", self.take, turn.iteration, rollback=self.give_back)

    orders = Orders.create("one")
    with failing(FENCE, LOST, when=lambda: "take 1" in log), pytest.raises(DatabaseFailedError):
        drive(orders)

    orders.cancel(rollback=True)

    assert drive(orders) == "cancelled"
    assert log == ["take 0", "take 1"]


def test_a_drive_that_diverges_in_between_does_not_make_the_loss_good(shop: type[Actor], log: list[str]) -> None:
    """A bad deploy meets an actor whose worker had died: with the right code back, ended iterations are settled."""
    bad_deploy = []

    class Orders(shop):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            if bad_deploy:
                ctx.sleep("new", 1)
            for turn in ctx.loop("orders"):
                turn.rollback_checkpoint("order")
                turn.step("take", self.take, turn.iteration, rollback=self.give_back)

    # Given a worker that died before the record of the second order, with which the end of the first one rides
    orders = Orders.create("one")
    with suppress(SimulatedCrash), crash_at(3):
        drive(orders)
    assert log == ["take 0", "take 1"]

    # When code that does not fit was there for a while, and the actor is cancelled after it is taken back
    bad_deploy.append("on a Friday")
    assert drive(orders) == "diverged"
    bad_deploy.clear()
    orders.cancel(rollback=True)

    # Then nothing that was settled is undone
    assert drive(orders) == "cancelled"
    assert log == ["take 0", "take 1"]
