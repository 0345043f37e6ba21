"""In a main thread, as in prefork and solo, a body is stopped at its time-out, and nothing that it does then lands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT = 0.1


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield
    connection.close()


def hang() -> None:
    time.sleep(30)


def tidies_up(act: Callable[[], object]) -> None:
    """As a ``finally`` in a library does it."""
    try:
        hang()
    finally:
        act()


def swallows(act: Callable[[], object]) -> None:
    """The body has its way, and returns as if nothing had happened."""
    try:
        hang()
    except BaseException:
        act()


def writes_in_a_transaction_of_its_own(act: Callable[[], object]) -> None:
    try:
        hang()
    finally:
        with transaction.atomic():
            act()


def holds_a_transaction_open(act: Callable[[], object]) -> None:
    """It has written before its time was over, and would commit afterwards."""
    with transaction.atomic():
        act()
        try:
            hang()
        except BaseException:
            return


def holds_two_transactions_open(act: Callable[[], object]) -> None:
    """The inner one is a savepoint, whose end must not make the outer one good again."""
    with transaction.atomic():
        act()
        with transaction.atomic():
            try:
                hang()
            except BaseException:
                return


WAYS = [tidies_up, swallows, writes_in_a_transaction_of_its_own, holds_a_transaction_open, holds_two_transactions_open]


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_a_stopped_body_does_lands(way: Callable[[Callable[[], object]], None], atomic: bool) -> None:
    """Neither a row nor a message; and what comes after it finds a database that it can use."""

    class Till(Actor):
        payments = Queue(str)

    class Order(Actor):
        @workflow
        def run(self, ctx):
            failure = ctx.try_step("charge", self.charge, atomic=atomic, timeout=LIMIT).failure
            ctx.step("group", lambda: Group.objects.create(name="afterwards").name)
            ctx.step("outside", lambda: Group.objects.create(name="outside").name, atomic=False)
            return failure.kind

        def charge(self):
            way(self.act)

        def act(self):
            Group.objects.create(name="late")
            till.send("payments", "late")

    till = Till.create("one")
    order = Order.create("one")

    assert drive(order) == "completed", order.error

    assert order.output == "timeout"
    assert sorted(Group.objects.values_list("name", flat=True)) == ["afterwards", "outside"]
    assert not Message.objects.exists()
    assert connection.execute_wrappers == [], "nothing refuses statements of what comes later"


def test_what_a_body_did_in_time_stays() -> None:
    """Outside of a transaction it has happened."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, atomic=False, timeout=LIMIT).failure.kind

        def charge(self):
            Group.objects.create(name="in time")
            hang()

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "timeout"
    assert Group.objects.filter(name="in time").exists()


def test_a_rollback_handler_that_was_stopped_does_not_write_either() -> None:
    """It has failed, and is asked for; what it does in its ``finally`` would be done twice."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", str, rollback=self.release, rollback_timeout=LIMIT, rollback_atomic=False)
            ctx.step("charge", self.charge, max_retries=0)

        def charge(self):
            raise ValueError("declined")

        def release(self, rollback, output):
            tidies_up(lambda: Group.objects.create(name="late"))

    order = Order.create("one")

    drive(order)

    assert not Group.objects.exists()


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_a_query_that_does_not_end_is_stopped(atomic: bool) -> None:
    """SQLite computes in this very process, and PostgreSQL in its own."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            failure = ctx.try_step("report", self.report, atomic=atomic, timeout=LIMIT).failure
            return failure.kind

        def report(self):
            with connection.cursor() as cursor:
                cursor.execute(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000000) "
                    "SELECT count(*) FROM n"
                )
                return cursor.fetchone()

    order = Order.create("one")
    began = time.monotonic()

    assert drive(order) == "completed"

    assert order.output == "timeout"
    assert time.monotonic() - began < 5
