"""An error of the database ends its transaction: code that swallows it is told, and nothing is lost in silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection
from django.db.transaction import TransactionManagementError

from django_rivet import Actor, ActorNotFoundError, CriticalError, action, workflow
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

WAY_OUT = r"transaction\.atomic\(\) block of its own"


@pytest.fixture(autouse=True)
def a_taken_name() -> Iterator[None]:
    Group.objects.create(name="taken")
    with isolated_actors():
        yield


def swallow() -> str:
    """Writes, then meets an error that PostgreSQL would end the transaction for, and goes on."""
    Group.objects.create(name="written before")
    with suppress(IntegrityError):
        Group.objects.create(name="taken")
    return "done"


def names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def test_an_action_that_swallows_an_error_of_the_database_raises() -> None:
    """Its caller does not get the result of work that was rolled back, and is told of the way out."""

    class Desk(Actor):
        @action
        def sign_up(self) -> str:
            return swallow()

    desk = Desk.create("main")

    with pytest.raises(TransactionManagementError, match=WAY_OUT):
        desk.sign_up()

    assert names() == ["taken"]


@pytest.mark.parametrize("whose", ["its own", "another actor's"])
def test_a_step_whose_action_swallowed_an_error_of_the_database_fails(whose: str) -> None:
    """The action does not return in a transaction that can only be rolled back; uncaught, it fails the step."""

    class Desk(Actor):
        @action
        def sign_up(self) -> str:
            return swallow()

        @workflow
        def run(self, ctx):
            return ctx.step("sign up", self.call, max_retries=0)

        def call(self):
            return Desk.get("main" if whose == "its own" else "other").sign_up()

    Desk.create("other").cancel()
    desk = Desk.create("main")

    assert drive(desk) == "failed"

    assert desk.history()["sign up"].error.name == "TransactionManagementError"
    assert names() == ["taken"]


@pytest.mark.parametrize("whose", ["its own", "another actor's"])
def test_a_step_may_go_on_without_an_action_that_swallowed_an_error_of_the_database(whose: str) -> None:
    """An action is a savepoint: what it broke is undone with it, and the step's own work stays."""

    class Desk(Actor):
        @action
        def sign_up(self) -> str:
            return swallow()

        @workflow
        def run(self, ctx):
            return ctx.step("sign up", self.call)

        def call(self):
            Group.objects.create(name="the step's")
            with suppress(TransactionManagementError):
                Desk.get("main" if whose == "its own" else "other").sign_up()
            return "without"

    Desk.create("other").cancel()
    desk = Desk.create("main")

    assert drive(desk) == "completed"

    assert desk.output == "without"
    assert names() == ["taken", "the step's"]


def test_an_actor_whose_creation_swallowed_an_error_of_the_database_is_not_there() -> None:
    """Whoever creates it hears so, and gets no handle to an actor that was rolled back."""

    class Desk(Actor):
        def on_create(self, input):
            swallow()

    with pytest.raises(TransactionManagementError, match=WAY_OUT):
        Desk.create("main")

    with pytest.raises(ActorNotFoundError):
        Desk.get("main")
    assert names() == ["taken"]


def test_a_hook_that_swallows_an_error_of_the_database_costs_only_itself() -> None:
    """The failure that it was told of is on record, and the workflow goes on."""

    class Desk(Actor):
        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("sign up", self.refuse).failure.kind

        @run.on_error
        def note(self, event):
            self.state.told += 1
            swallow()

        def refuse(self):
            raise CriticalError("no")

    desk = Desk.create("main")

    assert drive(desk) == "completed"

    assert desk.output == "critical"
    assert desk.state.told == 0
    assert names() == ["taken"]


def test_a_body_that_closes_its_connection_is_charged_for_it() -> None:
    """The database did not fail the engine: the attempts of such a body are counted, and come to an end."""
    attempts = []

    class Desk(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("close", self.close, max_retries=1).failure.kind

        def close(self):
            attempts.append("closed")
            connection.close()

    desk = Desk.create("main")

    drive(desk)
    advance(60)

    assert drive(desk) == "completed"
    assert attempts == ["closed"] * 2
    assert desk.output == "exhausted"
