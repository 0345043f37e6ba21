"""Making actors over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet import Actor, UserError
from django_rivet.models import Actor as ActorRow
from django_rivet.testing import isolated_actors

pytestmark = pytest.mark.django_db

COUNTERS = "/api/actors/tests.CounterActor/"


def test_post_makes_an_actor(operator: APIClient, counter: Any) -> None:
    """The answer tells where it is found."""
    # when
    response = operator.post(COUNTERS, {"key": "main", "input": 7}, format="json")

    # then
    made = response.json()
    assert response.status_code == 201
    assert response["Location"] == made["url"] == f"http://testserver{COUNTERS}main/"
    assert {name: made[name] for name in ("type", "key", "status", "created")} == {
        "type": "tests.CounterActor",
        "key": "main",
        "status": "sleeping",
        "created": True,
    }
    assert counter.get("main").id == made["id"]
    assert counter.get("main").state.count == 7


def test_the_parts_of_a_key_are_a_list_in_bodies_and_joined_by_a_tilde_in_addresses(
    operator: APIClient, counter: Any
) -> None:
    """Keys made of parts survive the way out and back."""
    # when
    made = operator.post(COUNTERS, {"key": ["tenant~1", "Žofie 7"]}, format="json").json()

    # then
    assert made["key"] == ["tenant~1", "Žofie 7"]
    assert made["url"].endswith("/tenant~01~%C5%BDofie%207/")
    assert operator.get(made["url"]).json()["key"] == ["tenant~1", "Žofie 7"]
    assert counter.get(("tenant~1", "Žofie 7")).key == "tenant~1/Žofie 7"


def test_post_refuses_a_key_that_is_taken(operator: APIClient, counter: Any) -> None:
    """Only one of two clients that create the same actor is told that it did."""
    counter.create("main", 1)

    response = operator.post(COUNTERS, {"key": "main", "input": 7}, format="json")

    assert (response.status_code, response.json()["code"]) == (409, "actor_exists")
    assert counter.get("main").state.count == 1


def test_put_makes_an_actor_once(operator: APIClient, counter: Any) -> None:
    """The second time it is found, and its input is not looked at."""
    first = operator.put(f"{COUNTERS}main/", {"input": 7}, format="json")
    second = operator.put(f"{COUNTERS}main/", {"input": "nonsense"}, format="json")

    assert (first.status_code, first.json()["created"]) == (201, True)
    assert (second.status_code, second.json()["created"]) == (200, False)
    assert first.json()["id"] == second.json()["id"]
    assert counter.get("main").state.count == 7


def test_put_needs_no_body(operator: APIClient, counter: Any) -> None:
    """An actor without input is made by its address alone."""
    response = operator.put(f"{COUNTERS}main/")

    assert response.status_code == 201
    assert counter.get("main").state.count == 0


def test_an_input_of_another_type_is_refused(operator: APIClient, counter: Any) -> None:
    """The answer tells which part is wrong, and nothing is made."""
    response = operator.post(COUNTERS, {"key": "main", "input": "many"}, format="json")

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == ["input"]
    assert not ActorRow.objects.exists()


@pytest.mark.parametrize("key", ["", ".", "a/b", "a\n", [], ["a", ""], 7, True, {"a": "b"}, ["a", 7], "x" * 1025])
def test_a_key_that_breaks_the_rules_is_refused(operator: APIClient, counter: Any, key: object) -> None:
    """In a body it is a fault of the client, whatever it is."""
    response = operator.post(COUNTERS, {"key": key}, format="json")

    assert (response.status_code, response.json()["code"]) == (400, "invalid_key")
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == ["key"]


@pytest.mark.parametrize("segment", ["a~", "~a", "a%0Ab", "%00", "a~.~b"])
def test_an_address_that_is_no_key_is_refused(operator: APIClient, counter: Any, segment: str) -> None:
    """In an address as well."""
    for response in (operator.get(f"{COUNTERS}{segment}/"), operator.put(f"{COUNTERS}{segment}/")):
        assert (response.status_code, response.json()["code"]) == (400, "invalid_key")


def test_an_unknown_type_is_not_found(operator: APIClient) -> None:
    """It is not hinted at others either, which the user may not see."""
    response = operator.put("/api/actors/tests.CounterActr/main/")

    assert response.status_code == 404
    assert response.json() == {
        "code": "unknown_actor_type",
        "message": "There is no actor type 'tests.CounterActr'.",
        "metadata": {},
    }


def test_an_error_in_a_hook_undoes_the_creation(operator: APIClient) -> None:
    """The client reads what the hook wants to tell it, and there is no actor."""
    with isolated_actors():

        class PickyActor(Actor):
            def on_create(self, input: str) -> None:
                raise UserError("Not today.", code="closed", metadata={"until": "noon"}, status=422)

        response = operator.put("/api/actors/tests.PickyActor/main/", {"input": "x"}, format="json")

    assert response.status_code == 422
    assert response.json() == {"code": "closed", "message": "Not today.", "metadata": {"until": "noon"}}
    assert not ActorRow.objects.exists()


def test_what_a_hook_says_of_other_actors_stays_inside(operator: APIClient, counter: Any) -> None:
    """An actor that a hook did not find is no answer to a client that asked for another."""
    with isolated_actors():

        class LostActor(Actor):
            def on_create(self, input: Any) -> None:
                counter.create("secret", 1)
                counter.create("secret", 1)

        response = operator.put("/api/actors/tests.LostActor/main/")

    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "secret" not in response.content.decode()
    assert not ActorRow.objects.exists()
