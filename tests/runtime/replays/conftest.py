"""Actors that do things, fail, and undo what they did."""

from __future__ import annotations

from typing import Any

import pytest

from django_rivet import (
    Actor,
    CriticalError,
    workflow,
)
from django_rivet.testing import isolated_actors


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@pytest.fixture
def outside() -> list[str]:
    """The outside world."""
    return []


@pytest.fixture
def broken() -> set[str]:
    """What fails at the moment."""
    return set()


@pytest.fixture
def trips(outside: list[str], broken: set[str]) -> Any:
    """A base for actors that do, fail and undo."""

    class Trips(Actor):
        class Meta:
            abstract = True

        class State:
            count: int = 0

        def do(self, name):
            if name in broken:
                raise CriticalError(f"no {name}")
            outside.append(name)
            self.state.count += 1

        def undo(self, rollback, output):
            name = rollback.args[0]
            if f"undo {name}" in broken:
                raise CriticalError(f"{name} is closed")
            outside.append(f"undo {name}")

    return Trips


@pytest.fixture
def trip(trips: Any) -> Any:
    """Three steps with handlers, a night in between."""

    class Trip(trips):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for name in ("flight", "hotel"):
                ctx.step(name, self.do, name, rollback=self.undo, rollback_max_retries=0)
            ctx.sleep("night", 60)
            ctx.step("car", self.do, "car", rollback=self.undo)

    return Trip
