"""A body that takes the connection into its own hands fails clearly, and never commits half of its step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import Error, connection, transaction

from django_rivet import Actor, ActorNotFoundError, CriticalError, action, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield
    connection.close()


def statement(sql: str) -> Callable[[], None]:
    def send() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    send.__name__ = sql
    return send


def enter_a_block() -> None:
    transaction.atomic().__enter__()


def close() -> None:
    connection.close()


def close_and_connect() -> None:
    connection.close()
    connection.connect()


def autocommit_off() -> None:
    transaction.set_autocommit(False)


def autocommit_on() -> None:
    transaction.set_autocommit(True)


COMMITS = [
    statement("COMMIT"),
    statement("  commit work;"),
    statement("END"),
    statement("ROLLBACK"),
    statement("BEGIN"),
    transaction.commit,
    transaction.rollback,
]
MISUSES = [*COMMITS, autocommit_on, autocommit_off, enter_a_block, close, close_and_connect]


def names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def called(misuse: Callable[[], None]) -> str:
    return misuse.__name__


@pytest.mark.parametrize("misuse", MISUSES, ids=called)
def test_an_atomic_step_that_misuses_its_connection_fails_and_leaves_nothing(misuse: Callable[[], None]) -> None:
    """Neither what it wrote before nor its state is kept; the workflow hears of it, and goes on."""

    class Order(Actor):
        class State:
            count: int = 0

        @workflow
        def run(self, ctx):
            failure = ctx.try_step("take", self.take, max_retries=0).failure
            ctx.step("after", self.after)
            return failure.kind

        def take(self):
            self.state.count += 1
            Group.objects.create(name="taken")
            misuse()

        def after(self):
            self.state.count += 10

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "exhausted"
    assert names() == []
    assert order.state.count == 10
    assert order.history()["take"].error.name in (
        "TransactionManagementError",
        "InterfaceError",
        "ProgrammingError",
    )


@pytest.mark.parametrize("misuse", MISUSES, ids=called)
def test_an_atomic_step_may_not_swallow_that_it_misused_its_connection_and_lose_its_work(
    misuse: Callable[[], None],
) -> None:
    """Either its work is there with the record that says so, or neither is."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("take", self.take, max_retries=0).ok

        def take(self):
            Group.objects.create(name="taken")
            try:
                misuse()
            except Exception:
                return "anyway"

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output is (names() == ["taken"])


@pytest.mark.parametrize("ends", ["returns", "raises"])
@pytest.mark.parametrize(
    "misuse", [statement("BEGIN"), autocommit_off, enter_a_block, close, close_and_connect], ids=called
)
def test_a_step_outside_cannot_take_the_engine_into_its_transaction(misuse: Callable[[], None], ends: str) -> None:
    """What it leaves open is undone, and the record of its failure is none of it; closing is no offence."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("charge", self.charge, atomic=False, max_retries=0)
            ctx.step("after", lambda: Group.objects.create(name="after").name)
            return "fine" if result.ok else result.failure.error.message

        def charge(self):
            misuse()
            Group.objects.create(name="charged")
            if ends == "raises":
                raise CriticalError("declined")

    order = Order.create("one")

    assert drive(order) == "completed"

    connection.close()
    harmless = misuse in (close, close_and_connect)
    assert names() == (["after", "charged"] if harmless else ["after"])
    if ends == "raises":
        assert order.output == "declined"
    elif harmless:
        assert order.output == "fine"
    else:
        assert "left a transaction open" in order.output
    assert order.history()["charge"].attempts == 1


@pytest.mark.parametrize("misuse", MISUSES, ids=called)
@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_a_handler_that_misuses_its_connection_leaves_no_half_of_itself(
    misuse: Callable[[], None], atomic: bool
) -> None:
    """An atomic one is given up, and tried again when an operator says so; another one ends as it would in a step."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("take", int, rollback=self.give_back, max_retries=0, rollback_atomic=atomic)
            ctx.step("fails", self.fail)

        def fail(self):
            raise CriticalError("no")

        def give_back(self, rollback, output):
            Group.objects.create(name="given back")
            if not mended:
                misuse()

    mended: list[bool] = []
    order = Order.create("one")

    # When the handler misuses its connection
    status = drive(order)
    if atomic:
        assert status == "rollback_failed"
        assert names() == []
    else:
        assert status in ("failed", "rollback_failed")
        Group.objects.all().delete()

    # Then it can be done over, once it does not
    mended.append(True)
    if status == "rollback_failed":
        order.recover()
        assert drive(order) == "failed"
        assert names() == ["given back"]


@pytest.mark.parametrize("misuse", MISUSES, ids=called)
def test_a_hook_that_misuses_its_connection_costs_only_itself(misuse: Callable[[], None]) -> None:
    """The failure that it was told of is on record, and what it wrote is not."""

    class Order(Actor):
        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge).failure.kind

        @run.on_error
        def note(self, event):
            self.state.told += 1
            Group.objects.create(name="told")
            misuse()

        def charge(self):
            raise CriticalError("declined")

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "critical"
    assert order.state.told == 0
    assert names() == []


@pytest.mark.parametrize("where", ["action", "creation"])
@pytest.mark.parametrize("misuse", MISUSES, ids=called)
def test_an_action_or_creation_that_misuses_its_connection_raises_and_leaves_nothing(
    misuse: Callable[[], None], where: str
) -> None:
    """Its caller hears of it."""

    class Desk(Actor):
        class State:
            count: int = 0

        @action
        def sign_up(self) -> None:
            self.state.count += 1
            Group.objects.create(name="signed up")
            misuse()

        def on_create(self, input: Any) -> None:
            if self.key == "misused":
                self.sign_up()

    desk = Desk.create("main")

    with pytest.raises(Error):
        desk.sign_up() if where == "action" else Desk.create("misused")

    assert names() == []
    assert desk.state.count == 0
    with pytest.raises(ActorNotFoundError):
        Desk.get("misused")


def test_a_commit_below_django_is_found_out() -> None:
    """It cannot be undone; but the step does not count as done, and says why."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("take", self.take, max_retries=0).failure.error.message

        def take(self):
            Group.objects.create(name="taken")
            connection.connection.commit()

    order = Order.create("one")

    assert drive(order) == "completed"

    assert "behind the engine's back" in order.output


def test_savepoints_of_a_body_are_its_own_business() -> None:
    """What a body undoes by itself stays undone, and the rest lands with its record."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("take", self.take)

        def take(self) -> Any:
            Group.objects.create(name="kept")
            with connection.cursor() as cursor:
                cursor.execute("SAVEPOINT mine")
                Group.objects.create(name="undone")
                cursor.execute("ROLLBACK TO SAVEPOINT mine")
                cursor.execute("RELEASE SAVEPOINT mine")

    order = Order.create("one")

    assert drive(order) == "completed"
    assert names() == ["kept"]
