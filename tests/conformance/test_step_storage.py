"""STEP: a database that fails the engine is nobody's failed step."""

import re
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction

from django_rivet import Actor, workflow
from django_rivet.runtime.drive import DatabaseFailedError

pytestmark = pytest.mark.django_db

RECORD = re.compile(r"\s*INSERT INTO django_rivet_entry")
FENCE = re.compile(r"\s*UPDATE django_rivet_workflowrun SET\s+lease_until")


@contextmanager
def failing(statement, error, times=1):
    """The database answers the first ``times`` statements like this with an error."""
    left = [error] * times

    def fail(execute, sql, params, many, context):
        if left and statement.match(sql):
            raise left.pop()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail):
        yield
    assert not left, "the statement was never sent"


@pytest.mark.parametrize("error", [OperationalError("the connection is gone"), InterfaceError("it is closed")])
@pytest.mark.parametrize("statement", [RECORD, FENCE], ids=["record", "fence"])
@pytest.mark.parametrize(("atomic", "value"), [(True, "ch-1"), (True, None), (False, "ch-1")])
def test_step_12_a_storage_error_is_never_a_step_failure(rivet, outside, statement, error, atomic, value):
    """Differs on purpose from the reference: the pass ends, nothing is charged or reported, another pass follows."""

    class Order(Actor):
        class State:
            count: int = 0

        @workflow
        def run(self, ctx):
            try:
                result = ctx.try_step("charge", self.charge, atomic=atomic, max_retries=0)
            except Exception as leaked:
                outside.append(f"the workflow saw {leaked!r}")
                raise
            outside.append(result.ok)
            return result.value

        @run.on_error
        def note(self, event):
            outside.append(event)

        def charge(self):
            outside.append("charged")
            if atomic:
                self.state.count += 1
            return value

    order = Order.create("one")

    with failing(statement, error), pytest.raises(DatabaseFailedError):
        rivet.drive(order)
    assert outside == ["charged"]
    assert order.status == "sleeping"
    assert len(order.history()) == 0
    rivet.advance(1)
    assert rivet.drive(order) == "completed"

    assert outside == ["charged", "charged", True]
    assert order.output == value
    assert order.history()["charge"].attempts == 1
    assert order.state.count == int(atomic)


def test_step_12_a_storage_error_while_a_failure_is_written_costs_no_attempt(rivet, outside):
    """An attempt whose failure could not be recorded was never made: the body has all its attempts left."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=1, retry_backoff_base=0)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")

    with failing(FENCE, OperationalError("the connection is gone")), pytest.raises(DatabaseFailedError):
        rivet.drive(order)
    rivet.advance(1)
    assert rivet.drive(order) == "failed"

    assert outside == ["charged"] * 3
    assert order.history()["charge"].attempts == 2


def test_step_12_a_database_error_inside_a_body_is_the_body_s_own(rivet):
    """What the body asked of the database, and was refused, is an ordinary failed attempt with that error."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("group", self.group, max_retries=0)
            return [result.failure.kind, result.failure.error.name]

        def group(self):
            Group.objects.create(name="taken")

    Group.objects.create(name="taken")
    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert order.output == ["exhausted", "IntegrityError"]


def test_step_12_a_body_that_swallows_a_database_error_is_charged(rivet, outside):
    """The transaction is broken, so its record cannot commit; that is the body's fault and reads so."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("group", self.group, max_retries=1, retry_backoff_base=0)
            return [result.failure.kind, result.failure.attempts, result.failure.error.message]

        def group(self):
            outside.append("ran")
            try:
                Group.objects.create(name="taken")
            except IntegrityError:
                outside.append("swallowed")

    Group.objects.create(name="taken")
    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == ["ran", "swallowed"] * 2
    kind, attempts, message = order.output
    assert (kind, attempts) == ("exhausted", 2)
    assert "transaction.atomic()" in message


def test_step_12_a_body_that_fences_off_a_database_error_is_not_charged(rivet):
    """In an ``atomic`` block of its own the error breaks only that: the step completes."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("group", self.group)

        def group(self):
            try:
                with transaction.atomic():
                    Group.objects.create(name="taken")
            except IntegrityError:
                return Group.objects.get(name="taken").name

    Group.objects.create(name="taken")
    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert order.output == "taken"
    assert order.history()["group"].attempts == 1
