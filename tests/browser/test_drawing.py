"""What the page draws of a history, told to it as the API would: states that real orders pass in milliseconds."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import steps_of, undone_in

HISTORY = "**/history/?tree=true"


def entry(path: str, kind: str, status: str, children: Any = (), **more: Any) -> dict[str, Any]:
    began = "2026-01-02T03:04:05Z" if kind == "step" else None
    told = {"path": path, "kind": kind, "status": status, "attempts": int(kind == "step"), "output": None}
    told |= {"error": None, "started_at": began, "ended_at": began, "rollback": None, "children": list(children)}
    return told | more


def rollback(status: str, attempts: int = 0) -> dict[str, Any]:
    return {"status": status, "attempts": attempts, "error": None}


def history(order: dict[str, Any], block: str, charge: dict[str, Any], reserve: dict[str, Any]) -> dict[str, Any]:
    """One order, whose block stands like this."""
    there = "checkout/0/order"
    steps = [entry(f"{there}/reserve", "step", "completed", **reserve), entry(f"{there}/charge", "step", **charge)]
    message = entry("checkout/0/wait-order", "message", "completed", output=[{"id": 1, "body": order}])
    turn = entry("checkout/0", "iteration", "running", [message, entry(there, "block", block, steps)])
    return {"results": [entry("checkout", "loop", "running", [turn])]}


@pytest.fixture
def page(log_in) -> Page:
    return log_in()


def show(page: Page, told: dict[str, Any]) -> None:
    page.route(HISTORY, lambda route: route.fulfill(json=told))
    page.reload()
    expect(page.locator(".order")).to_have_count(1)


@pytest.mark.usefixtures("shop")
def test_a_compensation_in_progress_is_drawn_against_the_steps_that_it_undoes(page):
    """The refund is done, the release still to do: each stands beside its step, and time runs upwards there."""
    declined = {"name": "CardDeclined", "message": "no"}
    charge = {"status": "failed", "error": declined, "rollback": rollback("completed", 1)}

    show(page, history({"id": "one"}, "rolling_back", charge, {"rollback": rollback("owed")}))

    card = page.locator(".order")
    expect(card).to_have_attribute("data-verdict", "undoing")
    assert steps_of(card) == ["reserve done", "charge failed", "confirm not reached"]
    assert undone_in(card) == ["refund 1. done", "release 2. still to do"]
    for step, undo in (("reserve", "release"), ("charge", "refund")):
        row = card.locator(f"[data-step={step}]")
        expect(row.locator(".undo b")).to_have_text(undo)
        expect(row.locator(".arrow")).to_be_visible()
    refund, release = (card.locator(f"[data-step={step}] .undo").bounding_box() for step in ("charge", "reserve"))
    assert refund is not None
    assert release is not None
    assert release["y"] < refund["y"]

    show(page, history({"id": "one"}, "rolling_back", charge, {"rollback": rollback("failed", 4)}))

    expect(card).to_have_attribute("data-verdict", "stuck")
    assert undone_in(card) == ["refund 1. done", "release 2. failed, 4 attempts"]


@pytest.mark.usefixtures("shop")
def test_hostile_text_is_shown_as_text(page):
    """Orders, cards and errors come from outside: nothing of them becomes part of the page."""
    hostile = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    charge = {"status": "failed", "error": {"name": hostile, "message": hostile}}

    show(page, history({"id": hostile, "card": hostile}, "failed", charge, {"rollback": rollback("completed", 1)}))

    expect(page.locator(".order h3")).to_have_text(hostile)
    expect(page.locator(".order .error")).to_have_text(f"{hostile}: {hostile}")
    expect(page.locator(".order img, .order script")).to_have_count(0)
