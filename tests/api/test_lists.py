"""Lists of actors."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet.models import Actor as ActorRow
from django_rivet.models import WorkflowRun
from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

COUNTERS = "/api/actors/tests.CounterActor/"
CHECKOUTS = "/api/actors/tests.CheckoutActor/"


def keys(response: Any) -> list[Any]:
    return [actor["key"] for actor in response.json()["results"]]


def test_a_list_is_read_page_by_page(operator: APIClient, counter: Any) -> None:
    """What is added meanwhile neither hides an actor nor shows one twice."""
    # given
    for number in range(5):
        counter.create(f"b{number}")

    # when
    first = operator.get(f"{COUNTERS}?page_size=2")
    counter.create("a-newcomer")
    second = operator.get(first.json()["next"])
    third = operator.get(second.json()["next"])

    # then
    assert [keys(page) for page in (first, second, third)] == [["b0", "b1"], ["b2", "b3"], ["b4"]]
    assert third.json()["next"] is None
    assert keys(operator.get(third.json()["previous"])) == ["b2", "b3"]


def test_a_page_is_one_statement_and_looks_at_no_state(
    operator: APIClient, counter: Any, django_assert_num_queries: Any
) -> None:
    """A list of actors with large states, or broken ones, costs what any other costs."""
    for number in range(20):
        counter.create(f"c{number}")
    ActorRow.objects.update(state="this was never JSON")
    operator.get(COUNTERS)  # permissions are looked up once per user

    with django_assert_num_queries(1) as asked:
        response = operator.get(COUNTERS)

    assert len(keys(response)) == 20
    assert "state" not in asked.captured_queries[0]["sql"]
    assert sorted(response.json()["results"][0]) == ["created_at", "id", "key", "status", "type", "url"]


def test_only_actors_of_the_type_are_listed(operator: APIClient, counter: Any, checkout: Any) -> None:
    """Each type has a list of its own."""
    counter.create("mine")
    checkout.create("other")

    assert keys(operator.get(COUNTERS)) == ["mine"]


def test_a_list_can_be_narrowed_by_status(operator: APIClient, checkout: Any) -> None:
    """An operator finds what has failed."""
    checkout.create("good")
    bad = checkout.create("bad")
    bad.send("orders", {"id": "bad"})
    drive()

    assert keys(operator.get(f"{CHECKOUTS}?status=failed")) == ["bad"]
    assert keys(operator.get(f"{CHECKOUTS}?status=sleeping")) == ["good"]


def test_an_unknown_status_is_refused(operator: APIClient, checkout: Any) -> None:
    """Else a misspelt filter would look like an empty list."""
    response = operator.get(f"{CHECKOUTS}?status=faild")

    assert response.status_code == 400
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == ["status"]


def test_a_list_can_be_narrowed_by_the_start_of_the_key(operator: APIClient, counter: Any) -> None:
    """Letter by letter, on every database: no wildcard, and small letters are not capital ones."""
    for key in ("tenant", "Tenant", "ten%nt", ("tenant", "order-1"), "žofie", "zofie", " x"):
        counter.create(key)

    assert keys(operator.get(COUNTERS, {"key_prefix": "tenant"})) == ["tenant", ["tenant", "order-1"]]
    assert keys(operator.get(COUNTERS, {"key_prefix": "tenant/"})) == [["tenant", "order-1"]]
    assert keys(operator.get(COUNTERS, {"key_prefix": "ten%"})) == ["ten%nt"]
    assert keys(operator.get(COUNTERS, {"key_prefix": "ž"})) == ["žofie"]
    assert keys(operator.get(COUNTERS, {"key_prefix": " "})) == [" x"]


@pytest.mark.parametrize("query", ["key_prefix=%00", "cursor=nonsense", "cursor=cD0lMDA=", "cursor=%C5%BD"])
def test_a_query_that_no_database_could_answer_is_refused(operator: APIClient, counter: Any, query: str) -> None:
    """Whatever stands in the address is the client's fault, never the server's."""
    response = operator.get(f"{COUNTERS}?{query}")

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == [query.partition("=")[0]]


def test_a_list_of_an_unknown_type_is_not_found(operator: APIClient) -> None:
    """It is not empty."""
    response = operator.get("/api/actors/tests.Nobody/")

    assert (response.status_code, response.json()["code"]) == (404, "unknown_actor_type")


def test_every_status_can_be_asked_for(operator: APIClient, checkout: Any) -> None:
    """The filter knows what the engine knows."""
    for status in WorkflowRun.Status.values:
        assert operator.get(f"{CHECKOUTS}?status={status}").status_code == 200
