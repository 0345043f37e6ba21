"""One actor, as it is committed now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.permissions import IsAuthenticated
from rest_framework.test import APIClient

from django_rivet import Actor, workflow
from django_rivet.models import Actor as ActorRow
from django_rivet.testing import drive, isolated_actors, now

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"


def test_an_actor_that_waits_says_for_what(operator: APIClient, checkout: Any) -> None:
    """Status, state and the queues that would wake it."""
    # given
    handle = checkout.create("main")
    handle.send("orders", {"id": "one"})
    drive(handle)

    # when
    response = operator.get(CHECKOUT)

    # then
    shown = response.json()
    assert response.status_code == 200
    assert shown.pop("created_at")
    assert shown == {
        "id": handle.id,
        "type": "tests.CheckoutActor",
        "key": "main",
        "url": f"http://testserver{CHECKOUT}",
        "status": "sleeping",
        "state": {"taken": ["one"]},
        "output": None,
        "error": None,
        "waiting_for": ["orders"],
        "wake_at": None,
    }


def test_a_completed_actor_shows_its_output(operator: APIClient, checkout: Any) -> None:
    """What the workflow returned."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "last"})
    drive(handle)

    shown = operator.get(CHECKOUT).json()

    assert (shown["status"], shown["output"], shown["waiting_for"]) == ("completed", {"taken": "all"}, None)


def test_a_sleeping_actor_shows_when_it_wakes(operator: APIClient) -> None:
    """In ISO 8601."""
    with isolated_actors():

        class NapActor(Actor):
            @workflow
            def run(self, ctx):
                ctx.sleep("nap", 3600)

        handle = NapActor.create("main")
        drive(handle)
        shown = operator.get("/api/actors/tests.NapActor/main/").json()

    assert shown["wake_at"] == handle.wake_at.isoformat().replace("+00:00", "Z")
    assert handle.wake_at > now()


def test_staff_read_what_failed_a_workflow_and_others_do_not(
    operator: APIClient, member: User, client_of: Callable[[Any], APIClient]
) -> None:
    """An error is written for who runs the place: it may hold anything."""
    # given
    with isolated_actors():

        class FragileActor(Actor):
            class Meta:
                permission_classes = [IsAuthenticated]

            @workflow
            def run(self, ctx):
                raise ValueError("password=hunter2")

        handle = FragileActor.create("main")
        drive(handle)

        # when
        url = "/api/actors/tests.FragileActor/main/"
        for_staff, for_member = operator.get(url).json(), client_of(member).get(url).json()

    # then
    assert for_staff["error"] == {"name": "ValueError", "message": "password=hunter2"}
    assert (for_member["status"], for_member["error"]) == ("failed", None)


def test_an_actor_that_is_not_there_is_not_found(operator: APIClient, checkout: Any) -> None:
    """Looking does not make one."""
    response = operator.get(CHECKOUT)

    assert (response.status_code, response.json()["code"]) == (404, "actor_not_found")
    assert not ActorRow.objects.exists()


def test_an_actor_is_one_statement(operator: APIClient, checkout: Any, django_assert_num_queries: Any) -> None:
    """So that what is shown fits together."""
    checkout.create("main")
    operator.get(CHECKOUT)

    with django_assert_num_queries(1):
        operator.get(CHECKOUT)


def test_a_state_that_fits_no_longer_is_shown_as_it_is_stored(operator: APIClient, checkout: Any) -> None:
    """An operator can look at an actor that a deploy has broken."""
    checkout.create("main")
    ActorRow.objects.update(state='{"taken":7,"gone":{"$decimal":"1.10"}}')

    assert operator.get(CHECKOUT).json()["state"] == {"taken": 7, "gone": "1.10"}
