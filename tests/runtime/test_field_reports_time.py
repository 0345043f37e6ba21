"""Absurd durations: what makes sense is waited for to the day, and the rest is refused where it is said."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_rivet import Actor, InvalidInputError, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import advance, drive, isolated_actors, now

pytestmark = pytest.mark.django_db

DAY = 86_400
CENTURY = timedelta(days=36_525)


def short(value: Any) -> str:
    return repr(value)[:20]


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


def test_a_pause_of_sixty_days_between_two_attempts_is_kept() -> None:
    """Neither shortened by a hidden cap nor handed to a timer that cannot hold it."""
    attempts = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step(
                "charge",
                self.charge,
                max_retries=1,
                retry_backoff_base=30 * DAY,
                retry_backoff_max=timedelta(days=60),
                retry_jitter=0,
            )

        def charge(self):
            attempts.append(now())
            raise OSError("closed")

    order = Order.create("one")
    drive(order)

    advance(timedelta(days=60) - timedelta(minutes=1))
    assert drive(order) == "sleeping"
    advance(timedelta(minutes=1))
    assert drive(order) == "failed"
    assert len(attempts) == 2


@pytest.mark.parametrize("limit", [timedelta(days=30), CENTURY])
def test_a_very_long_time_limit_does_not_disturb_a_quick_step(limit: timedelta) -> None:
    """No timer overflows, and none rings at once."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", lambda: "charged", timeout=limit)

    order = Order.create("one")

    assert drive(order) == "completed"
    assert order.output == "charged"


@pytest.mark.parametrize("option", ["timeout", "retry_backoff_base", "retry_backoff_max"])
@pytest.mark.parametrize("value", [timedelta.max, 1e12, 1e300, 10**400, math.nan, math.inf, "5", True], ids=short)
def test_an_absurd_option_fails_the_workflow_before_the_body_and_is_named(option: str, value: Any) -> None:
    """Not in the failure path, where it would hide the error that made the retry necessary."""
    ran = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", ran.append, 1, **{option: value})

    order = Order.create("one")

    assert drive(order) == "failed"

    assert ran == []
    assert order.error.name == "InvalidStepError"
    assert "'charge'" in order.error.message
    assert option in order.error.message


def test_a_message_that_is_due_in_forty_days_is_taken_then() -> None:
    """Not after thirty-nine, and whatever lies before it."""

    class Shop(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            return ctx.queue.next("order").body

    shop = Shop.create("one")
    shop.send("orders", "late", delay=timedelta(days=40))

    advance(timedelta(days=39))
    assert drive(shop) == "sleeping"
    advance(timedelta(days=2))
    assert drive(shop) == "completed"
    assert shop.output == "late"


@pytest.mark.parametrize("delay", [timedelta.max, 3e11, 1e12, 1e300], ids=short)
def test_a_message_that_would_be_due_after_the_calendar_is_refused(delay: Any) -> None:
    """Said as what it is; once stored, such a date could not even be read."""

    class Shop(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.queue.next("order")

    shop = Shop.create("one")

    with pytest.raises(InvalidInputError, match="delay"):
        shop.send("orders", "never", delay=delay)
    assert not Message.objects.exists()


@pytest.mark.parametrize("timeout", [timedelta.max, 1e12, math.nan, "5", True], ids=short)
def test_an_absurd_time_to_wait_for_a_message_fails_the_workflow_and_names_the_wait(timeout: Any) -> None:
    """And takes no message with it."""

    class Shop(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.queue.next("first order", timeout=timeout)

    shop = Shop.create("one")

    assert drive(shop) == "failed"

    assert shop.error.name == "InvalidStepError"
    assert "first order" in shop.error.message
