"""Replaying over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet.store.runs import claim
from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"


def replay(client: APIClient, body: Any) -> Any:
    response = client.post(f"{CHECKOUT}replay/", body, format="json")
    return response.status_code, response.json()


@pytest.fixture
def waiting(checkout: Any) -> Any:
    """It has taken two orders."""
    handle = checkout.create("main")
    for number in ("one", "two"):
        handle.send("orders", {"id": number})
    assert drive(handle) == "sleeping"
    return handle


def last_step(handle: Any) -> str:
    return [entry.path for entry in handle.history() if entry.kind == "step"][-1]


def test_a_workflow_runs_again_from_a_step(operator: APIClient, waiting: Any) -> None:
    """The path is the one that the history shows."""
    assert replay(operator, {"entry": last_step(waiting)}) == (200, {"status": "sleeping"})

    assert drive(waiting) == "sleeping"
    assert waiting.state.taken == ["one", "two", "two"]


@pytest.mark.parametrize("body", [{}, {"entry": None}])
def test_without_a_step_it_begins_anew(operator: APIClient, waiting: Any, body: Any) -> None:
    """Messages included."""
    assert replay(operator, body) == (200, {"status": "sleeping"})

    assert drive(waiting) == "sleeping"
    assert waiting.state.taken == ["one", "two"] * 2


def test_an_unknown_step_is_404(operator: APIClient, waiting: Any) -> None:
    """The message names the last steps."""
    status, answer = replay(operator, {"entry": "nowhere"})

    assert (status, answer["code"]) == (404, "unknown_entry")
    assert last_step(waiting) in answer["message"]


def test_a_cancelled_workflow_is_409(operator: APIClient, waiting: Any) -> None:
    """It stays cancelled."""
    waiting.cancel()

    status, answer = replay(operator, {})

    assert (status, answer["code"]) == (409, "not_replayable")
    assert waiting.status == "cancelled"


def test_while_a_worker_drives_it_is_409(operator: APIClient, waiting: Any) -> None:
    """Try again when it waits."""
    waiting.wake()
    assert claim(uuid.UUID(waiting.id), "a worker", 60) is not None

    status, answer = replay(operator, {})

    assert (status, answer["code"]) == (409, "workflow_in_flight")


@pytest.mark.parametrize("body", [{"entry": 1.5}, {"entry": ["a"]}, {"entry": ""}, {"step": "a"}, {"rollback": True}])
def test_what_does_not_fit_is_400(operator: APIClient, waiting: Any, body: Any) -> None:
    """Nothing has happened: a misspelt name must not set everything aside."""
    status, answer = replay(operator, body)

    assert (status, answer["code"]) in [(400, "invalid_input"), (404, "unknown_entry")]
    assert len(waiting.history()) > 0
