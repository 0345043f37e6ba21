"""The shop's page in a browser: four orders, each to its end, before the eyes of who has bought them."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from example_project.shop.models import GatewayRequest
from tests.browser.pages import buy, id_of, ledger_of, numbers_of_events, steps_of, undone_in

DONE = ["reserve done", "charge done", "confirm done"]
CHARGED = [("charge", "25.00")]


def ends(card: Locator, verdict: str) -> None:
    expect(card).to_have_attribute("data-verdict", verdict)


def test_four_orders_end_as_they_should_before_the_eyes_of_who_bought_them(shop, log_in, screenshots):
    """A good card, a declined one, a slow gateway, and a worker that is killed while it charges: without a reload."""
    page = log_in()
    page.evaluate("document.documentElement.dataset.mark = 'not loaded again'")

    good = buy(page, "A good card")
    ends(good, "confirmed")
    assert steps_of(good) == DONE
    assert undone_in(good) == []

    declined = buy(page, "A declined card")
    ends(declined, "rejected")
    assert steps_of(declined) == ["reserve done", "charge failed", "confirm not reached"]
    assert undone_in(declined) == ["refund 1. done", "release 2. done"]
    expect(declined).to_contain_text("CardDeclined: card 'declined' was declined")

    slow = buy(page, "A slow gateway")
    expect(slow.locator("[data-step=charge] .done")).to_have_class(re.compile("running"))
    ends(slow, "confirmed")
    assert steps_of(slow) == DONE

    killed = pull_the_plug(page)
    ends(killed, "confirmed")
    assert steps_of(killed) == DONE
    expect(killed.locator("[data-step=charge]")).to_contain_text("2 attempts")
    assert shop.worker.starts == 2

    expect(page.locator("#books .stock li")).to_have_text([id_of(killed), id_of(slow), id_of(good)])
    for card, entries in ((good, CHARGED), (declined, []), (slow, CHARGED), (killed, CHARGED)):
        assert ledger_of(page, id_of(card)) == entries
    asked = GatewayRequest.objects.filter(order_id=id_of(killed)).values_list("idempotency_key", flat=True)
    assert len(asked) == 2
    assert len(set(asked)) == 1
    numbers = numbers_of_events(page)
    assert numbers == list(range(1, len(numbers) + 1))
    assert page.evaluate("document.documentElement.dataset.mark") == "not loaded again"
    take_pictures(page, screenshots)


def test_the_page_works_by_keyboard_and_on_a_phone(shop, log_in):
    """Tab and Enter buy, focus stays where it was, the outcome is announced, and nothing is wider than the screen."""
    page = log_in()
    page.set_viewport_size({"width": 400, "height": 800})
    page.get_by_role("button", name="Log out").focus()

    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="A declined card")).to_be_focused()
    page.keyboard.press("Enter")

    ends(page.locator(".order"), "rejected")
    expect(page.locator("#news[role=status]")).to_contain_text("rejected, all undone")
    expect(page.get_by_role("button", name="A declined card")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_each_program_is_shown_with_its_source(shop, log_in):
    """From the page, as text, and back again."""
    page = log_in()

    for name, line in (
        ("LedgerSyncActor", "retry_backoff_base=0.25,"),
        ("DirectCheckoutActor", 'turn.rollback_checkpoint("order")'),
        ("OrderActor", "timeout=30)"),
    ):
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.locator("pre")).to_contain_text(line)
        page.get_by_role("link", name="All programs").click()

    expect(page.locator("#connection")).to_have_text("live")


def pull_the_plug(page: Page) -> Locator:
    """Until an order was caught in its charge: on a busy machine the hand may come too late."""
    for _ in range(5):
        card = buy(page, "Pull the plug")
        expect(card.locator(".note")).to_be_visible()
        if "SIGKILL" in card.inner_text():
            return card
    raise AssertionError("no worker could be killed in its charge")


def take_pictures(page: Page, folder: Path | None) -> None:
    if folder is None:
        return
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    for name, width in (("shop", 1280), ("shop-narrow", 400)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="light")
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        page.emulate_media(color_scheme="dark")
        page.screenshot(path=folder / f"{name}-dark.png", full_page=True)
