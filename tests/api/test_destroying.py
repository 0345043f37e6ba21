"""Destroying over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet import ActorNotFoundError, CriticalError, UserError
from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"


def test_an_actor_is_destroyed(operator: APIClient, checkout: Any) -> None:
    """204, and there is none; the key can be had again."""
    checkout.create("main")

    response = operator.delete(CHECKOUT)

    assert (response.status_code, response.content) == (204, b"")
    assert operator.get(CHECKOUT).status_code == 404
    assert operator.delete(CHECKOUT).json()["code"] == "actor_not_found"
    assert operator.put(CHECKOUT).status_code == 201


def test_what_is_owed_refuses_it_unless_forced(operator: APIClient, checkout: Any) -> None:
    """409 that names the steps; `?force=true` leaves what they did as it is."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "one"})
    drive(handle)

    refused = operator.delete(CHECKOUT)
    assert (refused.status_code, refused.json()["code"]) == (409, "compensation_owed")
    assert "'orders/0/charge'" in refused.json()["message"]
    assert handle.status == "sleeping"

    assert operator.delete(f"{CHECKOUT}?force=true").status_code == 204
    with pytest.raises(ActorNotFoundError):
        _ = handle.status


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UserError("still on the road", code="on_the_road"), 400, "on_the_road"),
        (CriticalError("the password is 4711"), 500, "internal_error"),
        (ActorNotFoundError("somebody else's actor"), 500, "internal_error"),
    ],
)
def test_an_error_of_the_hook_refuses_it(
    operator: APIClient, checkout: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    """Only what the hook means for clients reaches one."""

    def on_destroy(self: Any) -> None:
        raise error

    monkeypatch.setattr(checkout, "on_destroy", on_destroy, raising=False)
    handle = checkout.create("main")

    response = operator.delete(CHECKOUT)

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert handle.status == "pending"


@pytest.mark.parametrize("request_of", ["?force=maybe", "body"])
def test_an_option_that_is_not_understood_is_refused(operator: APIClient, checkout: Any, request_of: str) -> None:
    """Nobody is left to believe that it was heard."""
    handle = checkout.create("main")

    if request_of == "body":
        response = operator.delete(CHECKOUT, {"force": True}, format="json")
    else:
        response = operator.delete(f"{CHECKOUT}{request_of}")

    assert response.status_code == 400
    assert handle.status == "pending"
