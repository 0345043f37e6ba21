"""What a client can know of a type before it has met an actor of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no stubs installed
from pydantic import BaseModel
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.test import APIClient

from django_rivet import Actor, Event, Queue, action, workflow
from django_rivet.testing import isolated_actors

pytestmark = pytest.mark.django_db

TYPES = "/api/actors/"


class Line(BaseModel):
    """One line of an order."""

    article: str
    count: int = 1


class Order(BaseModel):
    lines: list[Line]


def listed(client: APIClient) -> dict[str, Any]:
    """The types of these tests by name; the project may have others."""
    found = client.get(TYPES).json()["results"]
    return {each["type"]: each for each in found if each["type"].startswith("tests.")}


def test_a_type_is_described_as_json_schema(operator: APIClient) -> None:
    """Its actions, queues and events, with what they take and give."""
    # given
    with isolated_actors():

        class ShopActor(Actor):
            """Takes orders."""

            class State:
                sold: int = 0

            orders = Queue(Order, response_type=int)
            sold = Event(Line)

            @workflow
            def run(self, ctx):
                pass

            @action(readonly=True)
            def price(self, line: Line, discount: float = 0) -> float:
                """Of one line."""
                return 1.0

        # when
        shop = listed(operator)["tests.ShopActor"]

    # then
    assert (shop["description"], shop["has_workflow"]) == ("Takes orders.", True)
    assert sorted(shop["state"]["properties"]) == ["sold"]
    assert (shop["actions"]["price"]["description"], shop["actions"]["price"]["readonly"]) == ("Of one line.", True)
    arguments = Draft202012Validator(shop["actions"]["price"]["arguments"])
    assert arguments.is_valid({"line": {"article": "tea"}, "discount": 0.1})
    assert not arguments.is_valid({"line": {}})
    assert not arguments.is_valid({"line": {"article": "tea"}, "actor": 1})
    orders = Draft202012Validator(shop["queues"]["orders"]["body"])
    assert orders.is_valid({"lines": [{"article": "tea", "count": 2}]})
    assert not orders.is_valid({"lines": [{"article": "tea", "count": "many"}]})
    assert shop["queues"]["orders"]["response"]["type"] == "integer"
    assert sorted(shop["events"]["sold"]["payload"]["properties"]) == ["article", "count"]


def test_a_type_without_words_has_an_empty_description(operator: APIClient) -> None:
    """It does not show those of its base."""
    with isolated_actors():

        class SilentActor(Actor):
            pass

        silent = listed(operator)["tests.SilentActor"]

    assert (silent["description"], silent["has_workflow"], silent["actions"]) == ("", False, {})


def test_only_types_that_the_user_may_see_are_listed(
    staff: Callable[..., User],
    member: User,
    anonymous: APIClient,
    operator: APIClient,
    client_of: Callable[[Any], APIClient],
) -> None:
    """Each type's own permission classes decide, and for staff the permission to look at actors."""
    with isolated_actors():

        class PublicActor(Actor):
            class Meta:
                permission_classes = [AllowAny]

        class MembersActor(Actor):
            class Meta:
                permission_classes = [IsAuthenticated]

        class StaffActor(Actor):
            pass

        assert list(listed(anonymous)) == ["tests.PublicActor"]
        assert list(listed(client_of(member))) == ["tests.MembersActor", "tests.PublicActor"]
        assert list(listed(operator)) == ["tests.MembersActor", "tests.PublicActor", "tests.StaffActor"]
        assert list(listed(client_of(staff()))) == []


def test_an_anonymous_client_that_may_see_nothing_is_asked_to_log_in(anonymous: APIClient, counter: Any) -> None:
    """An empty list would say less than that."""
    response = anonymous.get(TYPES)

    assert (response.status_code, response.json()["code"]) == (403, "not_authenticated")
