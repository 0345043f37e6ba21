"""Deciding about failed rollback handlers over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_rivet import CriticalError
from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"
CHARGE = "orders/0/charge"


@pytest.fixture
def stuck(checkout: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its refund has failed."""

    def refund(self: Any, rollback: Any, charge: Any) -> None:
        raise CriticalError("the bank is closed")

    with monkeypatch.context() as closed:
        closed.setattr(checkout, "refund", refund)
        handle = checkout.create("main")
        handle.send("orders", {"id": "bad"})
        assert drive(handle) == "rollback_failed"
    return handle


def test_a_handler_is_retried(operator: APIClient, stuck: Any) -> None:
    """The rollback goes on with it."""
    response = operator.post(f"{CHECKOUT}rollback/retry/", {"path": CHARGE}, format="json")

    assert (response.status_code, response.json()) == (200, {"status": "rolling_back"})
    assert drive(stuck) == "failed"
    assert stuck.history()[CHARGE].rollback.status == "completed"


@pytest.mark.parametrize(
    ("decision", "field", "status"), [("skip", "reason", "skipped"), ("confirm", "note", "confirmed")]
)
def test_a_handler_is_skipped_or_marked_done(
    operator: APIClient, anonymous: APIClient, stuck: Any, decision: str, field: str, status: str
) -> None:
    """The history tells why, and which user decided it; a second request changes nothing."""
    for text in ("called the bank", "again"):
        body = {"path": CHARGE, field: text}
        response = operator.post(f"{CHECKOUT}rollback/{decision}/", body, format="json")
        assert (response.status_code, response.json()) == (200, {"status": "rolling_back"})

    assert drive(stuck) == "failed"
    entries = operator.get(f"{CHECKOUT}history/").json()["results"]
    rollback = next(entry["rollback"] for entry in entries if entry["path"] == CHARGE)
    assert (rollback["status"], rollback["note"]) == (status, "called the bank")
    assert rollback["decided_by"].startswith("staff-")


def test_what_has_not_failed_is_not_decided(operator: APIClient, stuck: Any) -> None:
    """409 that names those that have."""
    response = operator.post(f"{CHECKOUT}rollback/retry/", {"path": "orders/0/confirm"}, format="json")

    assert (response.status_code, response.json()["code"]) == (409, "rollback_not_failed")
    assert f"those that failed are '{CHARGE}'" in response.json()["message"]


@pytest.mark.parametrize(
    ("decision", "body", "fault"),
    [
        ("retry", {}, "path"),
        ("retry", {"path": CHARGE, "reason": "why not"}, "reason"),
        ("skip", {"path": CHARGE}, "reason"),
        ("skip", {"path": CHARGE, "reason": "  "}, "reason"),
        ("confirm", {"path": CHARGE, "note": "x" * 2001}, "note"),
    ],
)
def test_a_decision_without_a_reason_is_refused(
    operator: APIClient, stuck: Any, decision: str, body: Any, fault: str
) -> None:
    """400 with the field that is wrong."""
    response = operator.post(f"{CHECKOUT}rollback/{decision}/", body, format="json")

    assert response.status_code == 400
    assert [each["path"] for each in response.json()["metadata"]["errors"]] == [fault]
    assert stuck.status == "rollback_failed"
