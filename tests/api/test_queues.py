"""Sending messages over HTTP, and looking at what waits."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet.models import Message
from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"
ORDERS = f"{CHECKOUT}queues/orders/"


def send(client: APIClient, body: Any, key: str | None = None) -> Any:
    headers = {"Idempotency-Key": key} if key is not None else {}
    return client.post(ORDERS, {"body": body}, format="json", headers=headers)


def test_a_message_is_stored_and_worked_on_later(operator: APIClient, checkout: Any) -> None:
    """202: the answer does not wait for the workflow."""
    # given
    handle = checkout.create("main")

    # when
    response = send(operator, {"id": "one"})

    # then
    message = Message.objects.get()
    assert (response.status_code, response.json()) == (202, {"id": message.pk, "status": "queued"})
    drive(handle)
    assert handle.state.taken == ["one"]


def test_a_repeated_request_sends_one_message(operator: APIClient, checkout: Any) -> None:
    """With the same Idempotency-Key a client may send again what it is not sure of, also after it was handled."""
    # given
    handle = checkout.create("main")
    first = send(operator, {"id": "one"}, "k1")
    again = send(operator, {"id": "one"}, "k1")
    drive(handle)

    # when
    late = send(operator, {"id": "one"}, "k1")

    # then
    assert first.json() == again.json() == late.json()
    assert [each.status_code for each in (first, again, late)] == [202, 202, 202]
    assert Message.objects.count() == 1


def test_an_idempotency_key_belongs_to_one_body(operator: APIClient, checkout: Any) -> None:
    """Another body under the same key is a mistake of the client, and is not stored."""
    checkout.create("main")
    send(operator, {"id": "one"}, "k1")

    response = send(operator, {"id": "two"}, "k1")

    assert (response.status_code, response.json()["code"]) == (409, "idempotency_conflict")
    assert Message.objects.count() == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x07b"])
def test_an_unfit_idempotency_key_is_refused(operator: APIClient, checkout: Any, key: str) -> None:
    """It is not silently left out."""
    checkout.create("main")

    response = send(operator, {"id": "one"}, key)

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert not Message.objects.exists()


def test_a_body_that_does_not_fit_is_refused(operator: APIClient, checkout: Any) -> None:
    """The answer tells where the fault is."""
    checkout.create("main")

    response = send(operator, {"id": 7})

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == ["body.id"]
    assert not Message.objects.exists()


def test_an_unknown_queue_is_not_found(operator: APIClient, checkout: Any) -> None:
    """Before the actor is looked for."""
    response = operator.post(f"{CHECKOUT}queues/ordres/", {"body": 1}, format="json")

    assert (response.status_code, response.json()["code"]) == (404, "unknown_queue")


def test_a_message_to_no_actor_is_not_stored(operator: APIClient, checkout: Any) -> None:
    """Sending does not make one."""
    response = send(operator, {"id": "one"})

    assert (response.status_code, response.json()["code"]) == (404, "actor_not_found")


def test_a_full_actor_takes_no_more(operator: APIClient, checkout: Any) -> None:
    """429: come back when it has worked."""
    checkout.create("main")
    for number in range(3):
        send(operator, {"id": str(number)})

    response = send(operator, {"id": "one too many"})

    assert (response.status_code, response.json()["code"]) == (429, "queue_full")
    assert Message.objects.count() == 3


def test_a_message_has_a_size(operator: APIClient, checkout: Any) -> None:
    """413 above max_message_size."""
    checkout.create("main")

    response = send(operator, {"id": "x" * 200})

    assert (response.status_code, response.json()["code"]) == (413, "message_too_large")


def test_a_finished_workflow_takes_no_more(operator: APIClient, checkout: Any) -> None:
    """409: nobody would ever read it."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "last"})
    drive(handle)

    response = send(operator, {"id": "one"})

    assert (response.status_code, response.json()["code"]) == (409, "workflow_finished")


def test_what_waits_is_shown_by_queue(operator: APIClient, checkout: Any, django_assert_num_queries: Any) -> None:
    """The oldest first, without the bodies; an empty queue is shown too."""
    # given
    handle = checkout.create("main")
    ids = [handle.send(name, body).id for name, body in (("notes", "a"), ("notes", "b"))]
    operator.get(f"{CHECKOUT}queues/")

    # when
    with django_assert_num_queries(2):
        response = operator.get(f"{CHECKOUT}queues/")

    # then
    orders, notes = response.json()["results"]
    assert orders == {"queue": "orders", "size": 0, "messages": []}
    assert (notes["queue"], notes["size"]) == ("notes", 2)
    assert [message["id"] for message in notes["messages"]] == ids
    assert sorted(notes["messages"][0]) == ["created_at", "id", "queue"]


def test_of_a_long_queue_the_oldest_are_shown(
    operator: APIClient, checkout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size tells how many there are; one long queue does not hide the others."""
    monkeypatch.setattr("django_rivet.api.queries.SHOWN_MESSAGES", 1)
    handle = checkout.create("main")
    first = handle.send("notes", "a").id
    handle.send("notes", "b")
    other = handle.send("orders", {"id": "one"}).id

    orders, notes = operator.get(f"{CHECKOUT}queues/").json()["results"]

    assert [notes["size"], [each["id"] for each in notes["messages"]]] == [2, [first]]
    assert [orders["size"], [each["id"] for each in orders["messages"]]] == [1, [other]]
