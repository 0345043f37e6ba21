"""The shop's page, in the words of who looks at it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def buy(page: Page, button: str) -> Locator:
    """Press it; returns the card of the order."""
    there = page.locator(".order").count()
    page.get_by_role("button", name=button).click()
    expect(page.locator(".order")).to_have_count(there + 1)
    order_id = page.locator(".order").first.get_attribute("data-order")
    return page.locator(f'.order[data-order="{order_id}"]')


def id_of(card: Locator) -> str:
    return card.get_attribute("data-order") or ""


def steps_of(card: Locator) -> list[str]:
    """The left column, from top to bottom: name and what became of it, without the time it took."""
    return [" ".join(text.split(", ")[0].split()) for text in card.locator(".done").all_inner_texts()]


def undone_in(card: Locator) -> list[str]:
    """The right column, from bottom to top: the order in which things were undone."""
    return [" ".join(text.split()) for text in reversed(card.locator(".undo:not(.none)").all_inner_texts())]


def ledger_of(page: Page, order_id: str) -> list[tuple[str, str]]:
    rows = page.locator("section", has=page.get_by_role("heading", name="ledger")).locator("table").first
    found = [row.locator("th, td").all_inner_texts() for row in rows.locator("tbody tr").all()]
    return [(cells[1], cells[2]) for cells in found if cells[0] == order_id]


def numbers_of_events(page: Page) -> list[int]:
    """As they were heard, the first one first."""
    found: list[str] = page.locator("#events li").evaluate_all("lines => lines.map(line => line.dataset.seq)")
    return [int(number) for number in reversed(found)]
