"""Pausing and resuming over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"


def test_a_workflow_is_paused_and_resumed(operator: APIClient, checkout: Any) -> None:
    """Messages wait meanwhile; a second pause is no error."""
    handle = checkout.create("main")
    drive(handle)

    for _ in range(2):
        response = operator.post(f"{CHECKOUT}pause/")
        assert (response.status_code, response.json()) == (200, {"status": "paused"})
    sent = operator.post(f"{CHECKOUT}queues/orders/", {"body": {"id": "one"}}, format="json")
    assert sent.status_code == 202
    assert drive(handle) == "paused"
    shown = operator.get(CHECKOUT).json()
    assert (shown["status"], shown["wake_at"], shown["waiting_for"]) == ("paused", None, ["orders"])

    response = operator.post(f"{CHECKOUT}resume/")
    assert (response.status_code, response.json()) == (200, {"status": "sleeping"})
    drive(handle)
    assert handle.state.taken == ["one"]


def test_what_stands_still_is_not_paused(operator: APIClient, checkout: Any) -> None:
    """409, and the message says how it stands."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "bad"})
    drive(handle)

    response = operator.post(f"{CHECKOUT}pause/")

    assert (response.status_code, response.json()["code"]) == (409, "workflow_finished")
    assert response.json()["message"].endswith("stands still: it is failed.")


def test_what_is_not_paused_is_not_resumed(operator: APIClient, checkout: Any) -> None:
    """409, and nothing changes."""
    handle = checkout.create("main")

    response = operator.post(f"{CHECKOUT}resume/")

    assert (response.status_code, response.json()["code"]) == (409, "nothing_to_resume")
    assert handle.status == "pending"
