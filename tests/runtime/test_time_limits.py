"""What hangs is cut off, and its failure is on record whatever it was cut off in."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from django.db import connection

from django_rivet import Actor, CriticalError, workflow
from django_rivet.runtime import bodies, celery_tasks
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield
    connection.close()  # a session that is still asleep must not meet the next test


def hang() -> None:
    """In the middle of a query, where the database has one that lasts."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.3)")
    else:
        time.sleep(0.3)


def test_a_limit_that_is_over_before_the_body_begins_leaves_no_timer_behind() -> None:
    """Else it would ring in whatever the process does next."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return [ctx.try_step(f"charge {n}", int, timeout=1e-6).failure.kind for n in range(20)]

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == ["timeout"] * 20
    _, again = signal.getitimer(signal.ITIMER_REAL)
    assert again == 0, "a body's timer rings again and again; a test runner's own does not"


def test_a_hook_that_hangs_in_the_database_does_not_hide_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have taken the transaction with it; the failure is recorded all the same, and the body not run again."""
    monkeypatch.setattr(bodies, "HOOK_SECONDS", 0.1)
    bodies_run = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge).failure.kind

        @run.on_error
        def note(self, event):
            hang()

        def charge(self):
            bodies_run.append("charge")
            raise CriticalError("declined")

    order = Order.create("one")

    assert drive(order) == "completed"

    assert bodies_run == ["charge"]
    assert order.output == "critical"
    assert str(order.history()["charge"].error) == "CriticalError: declined"


def test_what_a_body_that_hung_did_is_undone_and_the_hook_works_on_what_was_before() -> None:
    """The hook's change is the only one that stays."""

    class Order(Actor):
        class State:
            tries: int = 0
            errors: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, timeout=0.1).failure.kind

        @run.on_error
        def note(self, event):
            self.state.errors += 1

        def charge(self):
            self.state.tries += 1
            hang()

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "timeout"
    assert (order.state.tries, order.state.errors) == (0, 1)


def test_a_body_is_stopped_where_celery_runs_tasks_eagerly() -> None:
    """The caller waits for the drive, and no longer than the time-out."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", time.sleep, 60, timeout=0.1).failure.kind

    order = Order.create("one")

    celery_tasks.drive.apply([order.id])

    assert order.output == "timeout"
