"""A step that kills its workers is stopped, and what answers to that has all its own chances."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import override_settings

from django_rivet import Actor, workflow
from django_rivet.store.runs import claim, renew
from django_rivet.testing import SimulatedCrash, advance, drive, isolated_actors

pytestmark = pytest.mark.django_db

MAX_TAKEOVERS = 3


@pytest.fixture(autouse=True)
def few_takeovers() -> Iterator[None]:
    with override_settings(RIVET={"MAX_TAKEOVERS": MAX_TAKEOVERS}):
        yield


@pytest.fixture
def log() -> list[str]:
    """What was done in the world outside."""
    return []


@pytest.fixture
def deadly(log: list[str]) -> Iterator[type[Actor]]:
    """A base for actors with a body at which every worker dies."""
    with isolated_actors():

        class Deadly(Actor[Any]):
            class Meta:
                abstract = True

            def book(self, thing):
                log.append(f"book {thing}")

            def give_back(self, rollback, output):
                log.append(f"give back {rollback.args[0]}")

            def kill(self):
                raise SimulatedCrash

        yield Deadly


def drive_and_die(handle: Any, times: int) -> None:
    for _ in range(times):
        with pytest.raises(SimulatedCrash):
            drive(handle)


def test_the_rollback_that_follows_an_interrupted_step_runs(deadly: type[Actor], log: list[str]) -> None:
    """The handlers are not taken for what the workers died at."""

    class Trip(deadly):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("room", self.book, "room", rollback=self.give_back)
            ctx.step("flight", self.kill)

    trip = Trip.create("one")
    drive_and_die(trip, MAX_TAKEOVERS)

    assert drive(trip) == "failed"

    assert trip.error.name == "StepInterruptedError"
    assert log == ["book room", "give back room"]


def test_a_block_that_an_interrupted_step_ended_is_undone(deadly: type[Actor], log: list[str]) -> None:
    """The interruption is a failure that the block catches, and its outcome is data."""

    class Trip(deadly):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            return ctx.try_block("stay", self.stay, rollback=True).failure.error.name

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("room", self.book, "room", rollback=self.give_back)
            block.step("breakfast", self.kill)

    trip = Trip.create("one")
    drive_and_die(trip, MAX_TAKEOVERS)

    assert drive(trip) == "completed"

    assert trip.output == "StepInterruptedError"
    assert log == ["book room", "give back room"]


def test_deaths_at_a_handler_are_counted_from_the_interruption_on(deadly: type[Actor], log: list[str]) -> None:
    """One death less than the limit does not stop a handler, whatever the step before it cost."""

    class Trip(deadly):  # type: ignore[valid-type]
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("room", self.book, "room", rollback=self.give_back_at_last)
            ctx.step("flight", self.kill)

        def give_back_at_last(self, rollback, output):
            log.append("try")
            if log.count("try") < MAX_TAKEOVERS:
                raise SimulatedCrash
            self.give_back(rollback, output)

    trip = Trip.create("one")
    drive_and_die(trip, MAX_TAKEOVERS + MAX_TAKEOVERS - 1)

    assert drive(trip) == "failed"

    assert log[-1] == "give back room"


def test_a_worker_that_is_killed_while_it_shuts_down_is_no_takeover(shop: SimpleNamespace) -> None:
    """Deploys whose grace is shorter than a step must not end it as interrupted, however many there are."""
    actor = shop.Checkout.create("main")
    drive(actor)
    actor.send("orders", {"id": "1"})

    for _ in range(MAX_TAKEOVERS + 1):
        claimed = claim(uuid.UUID(actor.id), "a worker", 10)
        assert claimed is not None
        assert renew(claimed.lease, leaving=True)
        advance(11)
    drive(actor)

    assert actor.state.completed == ["1"]
