"""Two at once, and one of them in the way: nobody's change is lost, and nothing that happened happens again."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection, connections, transaction

from django_rivet import Actor, ActorBusyError, action, workflow
from django_rivet.testing import drive, isolated_actors
from tests.runtime.faults import FENCE, LOCKED, failing
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


def one_writer_at_a_time() -> bool:
    """SQLite: whoever wants to write waits until the transaction of the other is over."""
    return connection.vendor == "sqlite"


def meanwhile(work: Callable[[], Any]) -> threading.Thread:
    """Somebody else's work: where no lock is in its way it is done when this returns."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0 if one_writer_at_a_time() else 2)
    return thread


@pytest.mark.parametrize("lost_by", ["a savepoint of the body's own", "an action that raises"])
def test_a_turn_that_went_with_a_savepoint_overwrites_nobodys_change(lost_by: str) -> None:
    """PostgreSQL gives a row's lock back with the savepoint that it was taken in: another action may come between."""

    class Account(Actor):
        class State:
            balance: int = 0

        @workflow
        def run(self, ctx):
            ctx.step("bonus", self.bonus, max_retries=0)

        def bonus(self):
            runs.append("bonus")
            if lost_by == "an action that raises":
                with suppress(LookupError):
                    Clerk.get("main").look_and_raise()
            else:
                with suppress(IntegrityError), transaction.atomic():
                    assert self.state.balance >= 0
                    Group.objects.create(name="taken")
            if not others:
                others.append(meanwhile(lambda: Account.get("one").deposit()))
            self.state.balance += 1

        @action
        def deposit(self) -> None:
            self.state.balance += 10

        @action
        def look(self) -> int:
            return self.state.balance

    class Clerk(Actor):
        @action
        def look_and_raise(self) -> None:
            Account.get("one").look()
            raise LookupError

    others: list[threading.Thread] = []
    runs: list[str] = []
    Group.objects.create(name="taken")
    Clerk.create("main")
    account = Account.create("one")

    assert drive(account) == "completed"
    others[0].join()

    assert account.state.balance == 11
    assert account.history()["bonus"].attempts == len(runs), "run again, uncharged, and on record"


def test_actions_that_wait_for_each_other_end_with_a_busy_actor() -> None:
    """The database ends a deadlock at the cost of one of the two, which hears of it and has left nothing behind."""

    class Account(Actor):
        class State:
            balance: int = 0

        @action
        def give(self, other: str) -> None:
            self.state.balance -= 1
            with suppress(threading.BrokenBarrierError):
                both_hold_one.wait(0.2 if one_writer_at_a_time() else 5)
            Account.get(other).take()

        @action
        def take(self) -> None:
            self.state.balance += 1

    both_hold_one = threading.Barrier(2)
    accounts = [Account.create("one"), Account.create("two")]
    refused: list[Exception] = []

    def transfer(n: int) -> None:
        try:
            accounts[n].give(accounts[1 - n].key)
        except Exception as error:
            refused.append(error)

    at_once(2, transfer)

    assert [type(error) for error in refused] == ([] if one_writer_at_a_time() else [ActorBusyError])
    first, second = (account.state.balance for account in accounts)
    assert first + second == 0
    assert abs(first) == len(refused)


@pytest.mark.parametrize("options", [{"at_most_once": True}, {"atomic": False}], ids=str)
def test_a_call_to_the_outside_is_not_repeated_for_a_conflict_of_its_record(options: dict[str, Any]) -> None:
    """The call has happened: what meets the conflict, and is tried again, is the writing down."""
    charges = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, **options)

        def charge(self):
            charges.append("charged")
            return f"ch-{len(charges)}"

    order = Order.create("one")

    with failing(FENCE, LOCKED, when=lambda: charges):
        assert drive(order) == "completed"

    assert charges == ["charged"]
    assert order.output == "ch-1"


def test_runs_that_met_a_conflict_are_on_record_and_not_charged() -> None:
    """The history shows how often the body ran; its retries are all still there."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=0)

        def charge(self):
            runs.append("charge")
            if len(runs) < 3:
                raise ActorBusyError("somebody else was at it")

    runs: list[str] = []
    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.history()["charge"].attempts == len(runs) == 3


OPERATORS_LOOK = re.compile(r'.*FROM "django_rivet_workflowrun".*WHERE', re.DOTALL)


def test_an_operator_who_meets_a_conflict_is_served_by_another_try() -> None:
    """A worker that is frozen in a commit may hold what an operator asks for; the database ends one of the two."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.queue.next("wait")

    order = Order.create("one")
    assert drive(order) == "sleeping"

    with failing(OPERATORS_LOOK, LOCKED):
        order.cancel()

    assert order.status == "cancelled"


def test_in_a_transaction_of_his_own_the_operator_meets_the_conflict_himself() -> None:
    """Only who began the transaction can begin it again."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.queue.next("wait")

    order = Order.create("one")
    assert drive(order) == "sleeping"

    with failing(OPERATORS_LOOK, LOCKED), pytest.raises(OperationalError, match=LOCKED), transaction.atomic():
        order.cancel()

    assert order.status == "sleeping"
