"""How deep a value may be: it is refused where it comes in, or it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_rivet import Actor, Event, InvalidInputError, Queue, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [101, 5000])
@pytest.mark.parametrize("way", ["result", "event", "state"])
def test_a_value_nested_too_deep_fails_the_step_at_once(way: str, depth: int) -> None:
    """A full stack is no mystery: the limit is named."""
    attempts = []

    class Report(Actor):
        measured = Event(object)

        class State:
            last: list = []

        @workflow
        def run(self, ctx):
            ctx.step("measure", self.measure, max_retries=0)

        def measure(self):
            attempts.append(1)
            if way == "event":
                self.measured.broadcast(nested(depth))
            if way == "state":
                self.state.last = nested(depth)
            return nested(depth) if way == "result" else None

    report = Report.create("one")

    assert drive(report) == "failed"

    assert attempts == [1]
    assert "more than 100 containers" in report.history()["measure"].error.message


@pytest.mark.parametrize("depth", [97, 98, 99, 100])
def test_a_message_that_was_accepted_can_be_received(depth: int) -> None:
    """However deep it is: refused at the door, or handed out. In between it would fail its actor for ever."""

    class Report(Actor):
        orders = Queue(object)

        @workflow
        def run(self, ctx):
            return ctx.queue.next("order", names=["orders"]).body == nested(depth)

    report = Report.create("one")
    report.send("orders", nested(depth))

    assert drive(report) == "completed"
    assert report.output is True


@pytest.mark.parametrize("depth", [101, 5000])
def test_a_message_nested_too_deep_is_refused_at_the_door(depth: int) -> None:
    """With the limit, and before anything is stored."""

    class Report(Actor):
        orders = Queue(object)

        @workflow
        def run(self, ctx):
            ctx.queue.next("order")

    report = Report.create("one")

    with pytest.raises(InvalidInputError, match="more than 100 containers"):
        report.send("orders", nested(depth))
    assert drive(report) == "sleeping"
