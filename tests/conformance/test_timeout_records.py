"""TIMEOUT-06: the limit is the body's; what the engine does around it takes its own time."""

import re
import signal
import time
from contextlib import contextmanager

import pytest
from django.db import connection

from django_rivet import Actor, workflow

pytestmark = pytest.mark.django_db

RECORD = re.compile(r"\s*(INSERT INTO django_rivet_entry|UPDATE django_rivet_(workflowrun|actor) SET)")


def seconds_left():
    """Until the alarm that is set for the code that runs now; 0 without one."""
    return signal.getitimer(signal.ITIMER_REAL)[0]


@pytest.fixture
def no_alarm():
    """The test runner's own alarm is put away, and put back."""
    before = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.setitimer(signal.ITIMER_REAL, *before)


@contextmanager
def at_each_record(work):
    """``work()`` is done whenever the engine writes something."""

    def execute_after_work(execute, sql, params, many, context):
        if RECORD.match(sql):
            work()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(execute_after_work):
        yield


def order_class(outside, **options):
    class Order(Actor):
        class State:
            charged: int = 0

        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, **options)

        def charge(self):
            outside.append(seconds_left() > 0)
            if options.get("atomic", True):
                self.state.charged += 1
            return "ch-1"

    return Order


@pytest.mark.parametrize("atomic", [True, False])
def test_timeout_06_no_limit_is_left_when_the_step_is_recorded(rivet, outside, no_alarm, atomic):
    """Neither for the state, nor for the record, nor for the fence."""
    order = order_class(outside, atomic=atomic, timeout=60).create("one")
    left = []

    with at_each_record(lambda: left.append(seconds_left())):
        assert rivet.drive(order) == "completed"

    assert outside == [True]
    assert len(left) >= 3, "entry, fence, release"
    assert set(left) == {0}


@pytest.mark.parametrize("atomic", [True, False])
def test_timeout_06_a_record_slower_than_the_limit_is_no_time_out(rivet, outside, atomic):
    """A database that takes its time must not make a step fail whose body was quick."""
    order = order_class(outside, atomic=atomic, timeout=0.3, retry_backoff_base=0).create("one")

    with at_each_record(lambda: time.sleep(0.35)):
        assert rivet.drive(order) == "completed"

    assert outside == [True]
    assert (order.output, order.history()["charge"].attempts) == ("ch-1", 1)
