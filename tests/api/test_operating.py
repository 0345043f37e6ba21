"""Recovering and cancelling over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"


def test_a_failed_workflow_is_recovered(operator: APIClient, checkout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on where it failed, once a worker takes it."""
    # given
    handle = checkout.create("main")
    handle.send("orders", {"id": "bad"})
    assert drive(handle) == "failed"
    monkeypatch.setattr(checkout, "confirm", lambda self, order_id: None)

    # when
    response = operator.post(f"{CHECKOUT}recover/")

    # then
    assert (response.status_code, response.json()) == (200, {"status": "sleeping"})
    assert drive(handle) == "sleeping"
    assert handle.waiting_for == ["orders"]


def test_what_has_not_failed_is_not_recovered(operator: APIClient, checkout: Any) -> None:
    """409, and nothing changes."""
    checkout.create("main")

    response = operator.post(f"{CHECKOUT}recover/")

    assert (response.status_code, response.json()["code"]) == (409, "nothing_to_recover")


def test_a_workflow_is_cancelled(operator: APIClient, checkout: Any) -> None:
    """At once where no worker holds it; what it has done stays."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "one"})
    drive(handle)

    response = operator.post(f"{CHECKOUT}cancel/")

    assert (response.status_code, response.json()) == (200, {"status": "cancelled"})
    assert handle.history()["orders/0/charge"].rollback.status != "completed"


def test_a_workflow_is_cancelled_and_rolled_back(operator: APIClient, checkout: Any) -> None:
    """With rollback its completed steps are compensated."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "one"})
    drive(handle)

    response = operator.post(f"{CHECKOUT}cancel/", {"rollback": True}, format="json")

    assert response.status_code == 200
    assert drive(handle) == "cancelled"
    assert handle.history()["orders/0/charge"].rollback.status == "completed"


def test_what_has_ended_is_not_cancelled(operator: APIClient, checkout: Any) -> None:
    """409: a client that thinks it has stopped something is wrong."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "last"})
    drive(handle)

    response = operator.post(f"{CHECKOUT}cancel/")

    assert (response.status_code, response.json()["code"]) == (409, "workflow_finished")
    assert handle.status == "completed"


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("recover", {"rollback": True}),
        ("cancel", {"force": True}),
        ("pause", {"until": "tomorrow"}),
        ("resume", {"now": True}),
    ],
)
def test_an_unknown_option_is_refused(operator: APIClient, checkout: Any, operation: str, body: Any) -> None:
    """Nobody is left to believe in an option that does nothing."""
    handle = checkout.create("main")

    response = operator.post(f"{CHECKOUT}{operation}/", body, format="json")

    assert response.status_code == 400
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == list(body)
    assert handle.status == "pending"


@pytest.mark.parametrize("operation", ["recover", "cancel", "pause", "resume"])
def test_no_actor_no_operation(operator: APIClient, checkout: Any, operation: str) -> None:
    """404."""
    response = operator.post(f"{CHECKOUT}{operation}/")

    assert (response.status_code, response.json()["code"]) == (404, "actor_not_found")
