"""One id, started many times at the same moment: one actor, one run, and nobody's transaction is spoilt."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from rest_framework.test import APIClient

from django_rivet import Actor, ActorExistsError, workflow
from django_rivet.models import Actor as ActorRow
from django_rivet.testing import drive, isolated_actors
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db(transaction=True)

CLIENTS = 20
KEY = ("order", "1")


@pytest.fixture
def order() -> Iterator[SimpleNamespace]:
    """``order.Order``, whose first step writes into ``order.ledger``, the world outside."""
    ledger: list[str] = []
    with isolated_actors():

        class Order(Actor):
            class State:
                made_by: int = -1

            def create_state(self, input):
                return {"made_by": input}

            @workflow
            def run(self, ctx):
                ctx.step("begin", ledger.append, f"made by {self.made_by}")

            @property
            def made_by(self):
                return ActorRow.objects.get(pk=self.id).input

        yield SimpleNamespace(Order=Order, ledger=ledger)


def test_twenty_callers_with_transactions_of_their_own_share_one_actor(order: SimpleNamespace) -> None:
    """Two inputs among them: the winner's is kept, one of them is told that it made it, and each can go on writing."""

    def call(number: int) -> tuple[str, bool]:
        with transaction.atomic():
            Group.objects.create(name=f"before {number}")
            handle = order.Order.get_or_create(KEY, number % 2)
            Group.objects.create(name=f"after {number}")
        return handle.id, handle.created

    answers = at_once(CLIENTS, call)
    drive()

    assert len({actor_id for actor_id, _ in answers}) == 1
    [winner] = [number for number, (_, created) in enumerate(answers) if created]
    assert Group.objects.count() == 2 * CLIENTS
    assert order.ledger == [f"made by {winner % 2}"]
    assert order.Order.get(KEY).state.made_by == winner % 2


def test_twenty_callers_that_insist_on_a_new_actor_get_one(order: SimpleNamespace) -> None:
    """The others get ``ActorExistsError``, which leaves their transactions usable too."""

    def call(number: int) -> bool:
        with transaction.atomic():
            try:
                order.Order.create(KEY, number)
                made = True
            except ActorExistsError:
                made = False
            Group.objects.create(name=f"after {number}")
        return made

    made = at_once(CLIENTS, call)
    drive()

    assert sorted(made) == [False] * (CLIENTS - 1) + [True]
    assert Group.objects.count() == CLIENTS
    assert order.ledger == [f"made by {made.index(True)}"]


def test_twenty_posts_at_once_make_one_actor_and_one_run(order: SimpleNamespace) -> None:
    """One is told 201, with its own input at work; all others 409, and nobody a server's error."""
    user = User.objects.create_superuser("root")

    def post(number: int) -> int:
        client = APIClient()
        client.force_authenticate(user)
        body = {"key": list(KEY), "input": number}
        return int(client.post(f"/api/actors/{order.Order.definition.type_name}/", body, format="json").status_code)

    answers = at_once(CLIENTS, post)
    drive()

    assert sorted(answers) == [201] + [409] * (CLIENTS - 1)
    assert order.ledger == [f"made by {answers.index(201)}"]
