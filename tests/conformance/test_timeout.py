"""TIMEOUT: bodies that take too long."""

import asyncio
import signal
import threading
import time

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import override_settings

from django_rivet import Actor, CriticalError, StepTimeoutError, workflow

pytestmark = pytest.mark.django_db


def test_timeout_01_a_body_that_takes_too_long_fails_the_step_at_once(rivet, outside):
    """No retry: the workflow gets a StepTimeoutError, which is a CriticalError, and the attempt is rolled back."""

    class Order(Actor):
        class State:
            count: int = 0

        @workflow
        def run(self, ctx):
            try:
                ctx.step("charge", self.charge, timeout=0.05)
            except CriticalError as error:
                outside.append((type(error), str(error)))
                raise

        def charge(self):
            self.state.count += 1
            outside.append("began")
            time.sleep(60)
            outside.append("went on")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == ["began", (StepTimeoutError, "step 'charge' ran longer than 0.05 s")]
    assert str(order.error) == "StepTimeoutError: step 'charge' ran longer than 0.05 s"
    assert order.state.count == 0
    assert order.history()["charge"].status == "failed"


def test_timeout_01_a_body_cannot_swallow_its_time_out(rivet, outside):
    """A broad ``except`` catches no time-out, and a bare one only puts it off: the body is left, the step fails."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, timeout=0.05).failure.kind

        def charge(self):
            for _ in range(3):
                try:
                    time.sleep(60)
                except Exception:
                    outside.append("caught as an Exception")
                except:  # noqa: E722 - what careless code does
                    outside.append("swallowed")
            return "late"

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == ["swallowed"] * 3
    assert order.output == "timeout"


def test_timeout_01_an_async_body_is_stopped_too(rivet, outside):
    """A body that awaits too long ends like one that blocks."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, timeout=0.05).failure.kind

        async def charge(self):
            await asyncio.sleep(60)
            outside.append("went on")

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == []
    assert order.output == "timeout"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("atomic", [True, False])
def test_timeout_01_a_body_that_hangs_in_the_database_is_stopped_too(rivet, atomic):
    """The failure is recorded although the body's own statement was cut off, and the workflow goes on."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("report", self.report, atomic=atomic, timeout=0.1)
            ctx.step("group", lambda: Group.objects.create(name="afterwards").name)
            return result.failure.kind

        def report(self):
            Group.objects.create(name="the report's")
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_sleep(5)")
            time.sleep(5)

    order = Order.create("one")

    began = time.monotonic()
    try:
        assert rivet.drive(order) == "completed"
    finally:
        connection.close()  # a session that is still asleep must not meet the next test
    took = time.monotonic() - began

    assert order.output == "timeout"
    assert Group.objects.filter(name="the report's").exists() is not atomic
    assert took < 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ending", ["late", ValueError("late")], ids=["returns", "raises"])
def test_timeout_01_in_a_worker_s_thread_a_late_end_is_dropped(rivet, ending):
    """Where no signal can stop a body, its late value, its late error and its writes count for nothing."""

    class Order(Actor):
        class State:
            count: int = 0

        @workflow
        def run(self, ctx):
            result = ctx.try_step("charge", self.charge, timeout=0.05)
            return [result.ok, result.failure.kind, result.failure.error.name]

        def charge(self):
            self.state.count += 1
            time.sleep(0.1)
            if isinstance(ending, Exception):
                raise ending
            return ending

    order = Order.create("one")

    def work():
        try:
            rivet.drive(order)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert order.output == [False, "timeout", "StepTimeoutError"]
    assert order.state.count == 0
    assert order.history()["charge"].output is None


def seconds_left():
    """Until the alarm that is set for the code that runs now; 0 without one."""
    return signal.getitimer(signal.ITIMER_REAL)[0]


@pytest.fixture
def no_alarm():
    """The test runner's own alarm is put away, and put back."""
    before = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.setitimer(signal.ITIMER_REAL, *before)


@pytest.mark.parametrize(
    ("options", "limit"),
    [({}, 30), ({"timeout": 7}, 7), ({"timeout": 0}, 0), ({"timeout": -1}, 0)],
)
def test_timeout_02_each_attempt_has_thirty_seconds_unless_told_otherwise(rivet, outside, no_alarm, options, limit):
    """The limit starts anew with each attempt; 0 or less is none, and after the body none is left."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, retry_backoff_base=0, **options)
            outside.append(seconds_left())

        def charge(self):
            outside.append(seconds_left())
            time.sleep(0.01)
            if len(outside) < 3:
                raise ValueError("no")

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    *attempts, afterwards = outside
    assert attempts == pytest.approx([limit] * 3, abs=0.009)
    assert afterwards == 0


@override_settings(RIVET={"STEP_DEFAULTS": {"timeout": 0.05}})
def test_timeout_02_a_body_without_a_limit_takes_its_time(rivet):
    """``timeout=0`` at the step lifts a project's limit too."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, timeout=0)

        def charge(self):
            time.sleep(0.1)
            return "in time"

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert order.output == "in time"


def test_timeout_03_retry_on_timeout_makes_it_an_ordinary_failure(rivet, outside):
    """Two retries are three attempts, then StepExhaustedError with the time-out as the last error."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, timeout=0.02, retry_on_timeout=True, max_retries=2, retry_backoff_base=0)

        @run.on_error
        def note(self, event):
            outside.append((event.attempt, event.error.name, event.will_retry))

        def charge(self):
            time.sleep(60)

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == [(n, "StepTimeoutError", n < 3) for n in (1, 2, 3)]
    assert order.error.name == "StepExhaustedError"
    assert "after 3 attempts: StepTimeoutError: step 'charge' ran longer" in order.error.message


def test_timeout_04_try_step_gives_a_time_out_back_as_data(rivet):
    """Kind ``timeout``, one attempt, the error's name StepTimeoutError; the same on the next pass."""
    seen = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            seen.append(ctx.try_step("charge", self.charge, timeout=0.02))
            ctx.sleep("a while", 60)

        def charge(self):
            time.sleep(60)

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    first, second = seen
    assert first == second
    assert not first.ok
    failure = first.failure
    assert (failure.kind, failure.step_name, failure.attempts) == ("timeout", "charge", 1)
    assert failure.error.name == "StepTimeoutError"


def test_timeout_05_an_exhausted_time_out_has_one_kind_on_every_pass(rivet):
    """Differs on purpose from the reference, where a replay changes it: ``exhausted`` is stored and replayed."""
    kinds = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("charge", self.charge, timeout=0.02, retry_on_timeout=True, max_retries=0)
            kinds.append((result.failure.kind, result.failure.attempts, result.failure.error.name))
            ctx.sleep("a while", 60)

        def charge(self):
            time.sleep(60)

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert kinds == [("exhausted", 1, "StepTimeoutError")] * 2
