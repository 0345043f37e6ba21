"""Values that other engines choked on: what is too large, too deep or no JSON ends one step, and not its worker."""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, Event, InvalidInputError, OutputNotSerializableError, action, workflow
from django_rivet.models import Event as EventRow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db

LIMIT = 1024 * 1024
LARGE = "x" * (5 * LIMIT)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


@dataclasses.dataclass
class Price:
    amount: int


REFUSED = {
    "nan": (lambda: math.nan, "only finite numbers"),
    "inf": (lambda: math.inf, "only finite numbers"),
    "huge int": (lambda: 10**5000, "4300 digits"),
    "set": (lambda: {1}, "sorted"),
    "path": (lambda: Path("a"), "cannot be stored"),
    "dataclass": (lambda: Price(1), "asdict"),
    "model": (lambda: Group(name="a"), "pk"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_result_that_is_no_value_fails_its_step_once_and_says_where(kind: str) -> None:
    """On both databases alike, without a retry; what was done before is undone, and the actor is at its end."""
    make, reason = REFUSED[kind]
    log = []

    class Report(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("report")
            ctx.step("open", log.append, "open", rollback=self.close)
            ctx.step("measure", self.measure)

        def close(self, rollback, output):
            log.append("close")

        def measure(self):
            log.append("measure")
            return {"rows": [{"v": make()}]}

    report = Report.create("one")

    assert drive(report) == "failed"

    assert log == ["open", "measure", "close"]
    assert "$.rows[0].v" in report.error.message
    assert reason in report.error.message


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        10**400,
        Decimal("1.10"),
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        datetime.fromisoformat("2026-01-02T03:04:05"),
        date(2026, 1, 2),
        timedelta(microseconds=1),
        uuid.UUID(int=1),
        b"\xff",
    ],
    ids=repr,
)
def test_an_odd_value_is_the_same_in_the_step_the_state_the_event_and_the_output(value: Any) -> None:
    """Type and content survive the database, wherever the value was put."""

    class Report(Actor):
        measured = Event(object)

        class State:
            last: object = None

        @workflow
        def run(self, ctx):
            return ctx.step("measure", self.measure)

        def measure(self):
            self.state.last = value
            self.measured.broadcast(value)
            return value

    report = Report.create("one")

    assert drive(report) == "completed"

    seen = [report.output, report.state.last, report.history()["measure"].output]
    assert [(type(each), repr(each)) for each in seen] == [(type(value), repr(value))] * 3
    assert EventRow.objects.count() == 1


def test_an_event_with_nan_is_refused_and_nobody_hears_of_it() -> None:
    """A browser could not read it."""

    class Report(Actor):
        measured = Event(dict)

        class State:
            n: int = 0

        @action
        def measure(self) -> None:
            self.state.n += 1
            self.measured.broadcast({"v": math.nan})

    report = Report.create("one")

    with pytest.raises(InvalidInputError, match=r"measured\.v"):
        report.measure()

    assert (report.state.n, EventRow.objects.count()) == (0, 0)


@pytest.mark.parametrize("megabytes", [5, 80])
def test_a_result_over_the_limit_fails_the_step_with_both_sizes_and_the_rollback_works(megabytes: int) -> None:
    """The record of the failure is small, however large the value was."""
    log = []

    class Report(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("report")
            ctx.step("open", log.append, "open", rollback=self.close)
            ctx.step("measure", self.measure)

        def close(self, rollback, output):
            log.append("close")

        def measure(self):
            log.append("measure")
            return "x" * (megabytes * LIMIT)

    report = Report.create("one")

    assert drive(report) == "failed"

    assert log == ["open", "measure", "close"]
    assert str(megabytes * LIMIT + 2) in report.error.message
    assert str(LIMIT) in report.error.message


def test_a_result_just_below_the_limit_is_kept_whole() -> None:
    """The limit counts bytes of JSON: two of them are quotation marks."""

    class Report(Actor):
        @workflow
        def run(self, ctx):
            return len(ctx.step("measure", lambda: "x" * (LIMIT - 2)))

    report = Report.create("one")

    assert drive(report) == "completed"

    assert report.output == LIMIT - 2 == len(report.history()["measure"].output)


def test_a_state_that_an_action_has_grown_over_the_limit_is_not_kept() -> None:
    """The caller hears the size; the state is as it was, and the next action works."""

    class Report(Actor):
        class State:
            text: str = "before"

        @action
        def write(self, text: str) -> None:
            self.state.text = text

    report = Report.create("one")

    with pytest.raises(OutputNotSerializableError, match=rf"the state .* {5 * LIMIT + 11} bytes; .*{LIMIT}"):
        report.write(LARGE)
    assert report.state.text == "before"
    report.write("after")
    assert report.state.text == "after"


def test_a_state_that_grows_by_a_little_each_time_stops_growing_at_the_limit() -> None:
    """Each step that would grow it further fails; the one that makes room again works."""

    class Report(Actor):
        class State:
            parts: list[str] = []

        @workflow
        def run(self, ctx):
            grown = [ctx.try_step(f"part {n}", self.grow, max_retries=0).ok for n in range(5)]
            ctx.step("clear", self.clear)
            return grown

        def grow(self):
            self.state.parts.append("x" * (LIMIT // 4))

        def clear(self):
            assert len(self.state.parts) == 3
            self.state.parts.clear()

    report = Report.create("one")

    assert drive(report) == "completed"

    assert report.output == [True, True, True, False, False]
    assert report.state.parts == []


def test_an_event_over_the_limit_fails_the_step_that_sends_it() -> None:
    """Cut silently it would be a lie; nothing of the attempt is kept."""

    class Report(Actor):
        measured = Event(str)

        class State:
            n: int = 0

        @workflow
        def run(self, ctx):
            return str(ctx.try_step("tell", self.tell).failure.error)

        def tell(self):
            self.state.n += 1
            self.measured.broadcast(LARGE)

    report = Report.create("one")

    assert drive(report) == "completed"

    assert f"{5 * LIMIT + 2} bytes" in report.output
    assert (report.state.n, EventRow.objects.count()) == (0, 0)
