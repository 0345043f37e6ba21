"""Who calls, and the actors that are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser, Permission, User
from rest_framework.test import APIClient

from django_rivet import Actor, CriticalError, Event, Queue, action, workflow
from django_rivet.testing import isolated_actors

OPERATOR = (
    "view_actor",
    "recover_actor",
    "replay_actor",
    "cancel_actor",
    "pause_actor",
    "compensate_actor",
    "destroy_actor",
)


@pytest.fixture
def client_of() -> Callable[[AbstractUser | None], APIClient]:
    """A client that is logged in as that user."""

    def make(user: AbstractUser | None) -> APIClient:
        client = APIClient()
        client.force_authenticate(user)
        return client

    return make


@pytest.fixture
def staff(db: None) -> Callable[..., User]:
    """``staff("view_actor")``: a staff user with those model permissions of actors."""

    def make(*codenames: str) -> User:
        user = User.objects.create_user(f"staff-{'-'.join(codenames)}", is_staff=True)
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="django_rivet", codename__in=codenames)
        )
        return user

    return make


@pytest.fixture
def member(db: None) -> User:
    """A user of the site who is no staff."""
    return User.objects.create_user("member")


@pytest.fixture
def anonymous(db: None) -> APIClient:
    return APIClient()


@pytest.fixture
def operator(staff: Callable[..., User], client_of: Callable[[Any], APIClient]) -> APIClient:
    """Staff who may do everything that the API offers."""
    return client_of(staff(*OPERATOR))


@pytest.fixture
def counter() -> Iterator[type[Actor[Any]]]:
    """No workflow: a number and a list of words."""
    with isolated_actors():

        class CounterActor(Actor):
            """Counts."""

            class State:
                count: int = 0
                words: list[str] = []

            changed = Event(int)

            def create_state(self, input: int | None) -> dict[str, Any]:
                return {"count": input or 0}

            @action
            def add(self, amount: int, times: int = 1) -> int:
                """Add and tell the sum."""
                self.state.count += amount * times
                return int(self.state.count)

            @action
            def note(self, word: Any) -> None:
                self.state.words.append(word)

            @action(readonly=True)
            def total(self) -> int:
                return int(self.state.count)

        yield CounterActor


@pytest.fixture
def checkout() -> Iterator[type[Actor[Any]]]:
    """Takes orders one after another; a bad one is refunded and the workflow fails."""
    with isolated_actors():

        class CheckoutActor(Actor):
            class State:
                taken: list[str] = []

            class Meta:
                max_queue_size = 3
                max_message_size = 200

            orders = Queue(dict[str, str])
            notes = Queue(str)

            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("start")
                for turn in ctx.loop("orders"):
                    order = turn.queue.next("wait", names=["orders"]).body
                    if order["id"] == "last":
                        return {"taken": "all"}
                    turn.step("charge", self.charge, order["id"], rollback=self.refund)
                    turn.step("confirm", self.confirm, order["id"])
                return None

            def charge(self, order_id):
                return f"charge-{order_id}"

            def refund(self, rollback, charge):
                pass

            def confirm(self, order_id):
                if order_id == "bad":
                    raise CriticalError("the card 4711 was declined")
                self.state.taken.append(order_id)

        yield CheckoutActor
