"""Operators with certain permissions, and actors for them to look at."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.testing import isolated_actors

LogIn = Callable[..., Client]


@pytest.fixture
def log_in(db: None) -> LogIn:
    """``log_in("view_actor", "cancel_actor")``: a browser of staff with just these permissions."""

    def with_permissions(*codenames: str, username: str = "") -> Client:
        user = User.objects.create_user(username or "-".join(codenames) or "nobody", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return with_permissions


@pytest.fixture
def operator(log_in: LogIn) -> Client:
    """One who may do all that the page offers."""
    return log_in("view_actor", "recover_actor", "cancel_actor", "pause_actor", "compensate_actor", username="operator")


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    """Classes of actors that a test defines are gone after it."""
    with isolated_actors():
        yield


@pytest.fixture
def checkout(_isolated: None) -> type[Actor[Any]]:
    """Takes orders for ever; an order that is declined is rolled back, and the next one taken."""

    class Checkout(Actor):
        class State:
            completed: int = 0

        orders = Queue(dict)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("checkout"):
                order = turn.queue.next("wait-order", names=["orders"]).body

                def take(saga, order=order):
                    saga.rollback_checkpoint("order")
                    saga.step("reserve", self.reserve, order["id"], rollback=self.release)
                    saga.step("charge", self.charge, order["id"])

                turn.try_block("order", take, rollback=True)

        def reserve(self, order_id):
            return f"reserve-{order_id}"

        def release(self, rollback, reservation): ...

        def charge(self, order_id):
            if order_id == "declined":
                raise CriticalError("the card was declined")
            self.state.completed += 1

    return Checkout


@pytest.fixture
def trip(_isolated: None) -> type[Actor[Any]]:
    """Books a flight and fails at the car; ``repaired`` mends both the car and the rollback."""

    class Trip(Actor):
        class State:
            booked: list[str] = []

        repaired = False
        rollback_works = True

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.flight, rollback=self.cancel_flight)
            ctx.step("car", self.car, max_retries=0)
            return "booked"

        def flight(self):
            self.state.booked.append("flight")

        def cancel_flight(self, rollback, output):
            if not self.rollback_works:
                raise CriticalError("the airline does not answer")
            self.state.booked.remove("flight")

        def car(self):
            if not self.repaired:
                raise ConnectionError("no car to be had")

    return Trip


@pytest.fixture
def sleeper(_isolated: None) -> type[Actor[Any]]:
    """Sleeps for a week."""

    class Sleeper(Actor):
        @workflow
        def run(self, ctx):
            ctx.sleep("a-week", 7 * 86400)

    return Sleeper
