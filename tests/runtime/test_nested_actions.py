"""Actions that call each other: one transaction, and an action that raises leaves no trace in any actor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, action, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.mark.parametrize("caller", ["action", "step"])
def test_an_action_that_raises_undoes_what_it_made_its_caller_do(caller: str) -> None:
    """It called back before it failed: the caller's rows and its state in memory are as they were before the call."""

    class Customer(Actor):
        class State:
            paid: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.step("buy", self.buy_all)

        @action
        def buy(self) -> None:
            self.buy_all()

        def buy_all(self):
            self.state.paid.append("before")
            with suppress(OSError):
                Till.get("main").sell()
            self.state.paid.append("after")

        @action
        def pay(self) -> None:
            Group.objects.create(name="receipt")
            self.state.paid.append("for nothing")

    class Till(Actor):
        class State:
            sold: int = 0

        @action
        def sell(self) -> None:
            self.state.sold += 1
            Customer.get("one").pay()
            raise OSError("the till is stuck")

    till = Till.create("main")
    customer = Customer.create("one")

    if caller == "action":
        customer.buy()
    else:
        assert drive(customer) == "completed"

    assert customer.state.paid == ["before", "after"]
    assert till.state.sold == 0
    assert not Group.objects.exists()
