"""Durations and points in time that a sleep refuses, and long ones that it keeps."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from django_rivet import Actor, workflow
from django_rivet.testing import advance, drive, now

pytestmark = pytest.mark.django_db


def sleeping(sleep):
    """An actor whose workflow is `sleep(ctx)`, and then a step."""

    class Sleeper(Actor):
        @workflow
        def run(self, ctx):
            sleep(ctx)
            ctx.step("after", lambda: None)

    return Sleeper.create("one")


def test_forty_days_are_forty_days():
    """A sleep that outlasts every timer of a broker ends on the day, and not a minute before."""
    sleeper = sleeping(lambda ctx: ctx.sleep("rest", timedelta(days=40)))
    began = now()
    assert drive(sleeper) == "sleeping"
    assert timedelta(0) <= sleeper.wake_at - began - timedelta(days=40) < timedelta(minutes=1)

    advance(timedelta(days=40) - timedelta(minutes=1))
    assert drive(sleeper) == "sleeping"

    advance(timedelta(minutes=1))
    assert drive(sleeper) == "completed"


@pytest.mark.parametrize("year", [2100, 9999])
def test_a_sleep_may_last_to_the_end_of_the_calendar(year):
    """Any aware datetime that Python knows can be waited for."""
    moment = datetime(year, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    sleeper = sleeping(lambda ctx: ctx.sleep_until("rest", moment))

    assert drive(sleeper) == "sleeping"
    assert sleeper.wake_at == moment


@pytest.mark.parametrize(
    "duration",
    [
        math.nan,
        math.inf,
        -math.inf,
        "5",
        b"5",
        True,
        None,
        [5],
        Decimal(5),
        1 + 2j,
        timedelta.max,
        1e12,
        1e300,
        10**400,
    ],
    ids=repr,
)
def test_a_duration_that_is_none_fails_the_workflow(duration):
    """It is a mistake in the code: no retry can help, nothing is recorded, and the error names the sleep."""
    sleeper = sleeping(lambda ctx: ctx.sleep("rest", duration))

    assert drive(sleeper) == "failed"
    assert sleeper.error.name == "InvalidStepError"
    assert "'rest'" in sleeper.error.message
    assert len(sleeper.history()) == 0


@pytest.mark.parametrize(
    "when",
    [
        datetime(2100, 1, 1),  # noqa: DTZ001 - that it has no zone is the point
        date(2100, 1, 1),
        "2100-01-01T00:00:00Z",
        60,
        timedelta(seconds=60),
        None,
    ],
    ids=repr,
)
def test_a_point_in_time_that_is_none_fails_the_workflow(when):
    """`sleep_until` takes aware datetimes only: a naive one would mean another moment on every machine."""
    sleeper = sleeping(lambda ctx: ctx.sleep_until("rest", when))

    assert drive(sleeper) == "failed"
    assert sleeper.error.name == "InvalidStepError"
    assert "'rest'" in sleeper.error.message
    assert len(sleeper.history()) == 0


@pytest.mark.parametrize(
    "when",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ],
    ids=str,
)
def test_a_point_in_time_outside_the_calendar_of_utc_fails_the_workflow(when):
    """It cannot be stored, and must not take down the worker that tries, again and again."""
    sleeper = sleeping(lambda ctx: ctx.sleep_until("rest", when))

    assert drive(sleeper) == "failed"
    assert sleeper.error.name == "InvalidStepError"


@pytest.mark.parametrize("hours", [-12, 0, 5.5, 14])
def test_sleep_until_takes_any_time_zone(hours):
    """The moment counts, not how it is written."""
    moment = (now() + timedelta(days=1)).astimezone(timezone(timedelta(hours=hours)))
    sleeper = sleeping(lambda ctx: ctx.sleep_until("rest", moment))

    assert drive(sleeper) == "sleeping"
    assert sleeper.wake_at == moment
    advance(timedelta(days=1))
    assert drive(sleeper) == "completed"
