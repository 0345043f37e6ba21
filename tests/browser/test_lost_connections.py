"""A page that loses its connection comes back by itself, and has each event once, in order."""

from __future__ import annotations

import os
import signal
import time

from playwright.sync_api import Page, expect

from example_project.shop.actors import CheckoutActor
from tests.browser.pages import buy, numbers_of_events

AWAY_SECONDS = 10
EVENTS_OF_A_DECLINED_ORDER = 5
"""Reserved, failed, refunded, released, rejected."""


def events(page: Page):
    return page.locator("#events li")


def test_a_tab_that_was_offline_for_ten_seconds_has_each_of_500_events_once_in_order(shop, log_in):
    """Two tabs watch, one of them is away while the events pass; then both have heard the same."""
    steady, away = log_in(), log_in()
    buy(steady, "A declined card")
    for page in (steady, away):
        expect(events(page)).to_have_count(EVENTS_OF_A_DECLINED_ORDER)

    away.context.set_offline(True)
    left_at = time.monotonic()
    expect(away.locator("#connection")).to_contain_text("connection lost")
    checkout = CheckoutActor.get("main")
    for number in range(500 // EVENTS_OF_A_DECLINED_ORDER):
        checkout.send("orders", {"id": f"passing-{number}", "card": "declined"})
    expect(events(steady)).to_have_count(500 + EVENTS_OF_A_DECLINED_ORDER, timeout=150_000)
    while time.monotonic() - left_at < AWAY_SECONDS:
        away.wait_for_timeout(200)
    expect(events(away)).to_have_count(EVENTS_OF_A_DECLINED_ORDER)

    away.context.set_offline(False)

    expect(away.locator("#connection")).to_have_text("live")
    expect(events(away)).to_have_count(500 + EVENTS_OF_A_DECLINED_ORDER)
    assert numbers_of_events(away) == list(range(1, 501 + EVENTS_OF_A_DECLINED_ORDER))
    assert numbers_of_events(steady) == numbers_of_events(away)
    expect(away.locator(".order").first).to_have_attribute("data-order", "passing-99")
    expect(away.locator(".order").first).to_have_attribute("data-verdict", "rejected")


def test_a_page_outlives_the_process_that_served_it(shop, log_in):
    """The web process is killed; the page says so, finds the next one, and has missed nothing."""
    page = log_in()
    buy(page, "A good card")
    expect(events(page)).to_have_count(2)

    os.kill(shop.web.pid, signal.SIGKILL)
    expect(page.locator("#connection")).not_to_have_text("live")
    CheckoutActor.get("main").send("orders", {"id": "meanwhile"})

    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator('.order[data-order="meanwhile"]')).to_have_attribute("data-verdict", "confirmed")
    expect(events(page)).to_have_count(4)
    assert numbers_of_events(page) == [1, 2, 3, 4]


def test_a_page_that_comes_too_late_for_some_events_reads_everything_anew(shop, log_in):
    """What was pruned can't be told any more: the page is told of the gap, and shows what has become of it all."""
    page = log_in()
    buy(page, "A good card")
    expect(events(page)).to_have_count(2)
    page.context.set_offline(True)
    expect(page.locator("#connection")).to_contain_text("connection lost")

    checkout = CheckoutActor.get("main")
    checkout.send("orders", {"id": "forgotten"})
    eventually_sleeps_with(checkout, completed=2)
    forget_events_of(checkout)
    page.context.set_offline(False)

    expect(page.locator('.order[data-order="forgotten"]')).to_have_attribute("data-verdict", "confirmed")
    buy(page, "A good card")
    expect(events(page)).to_have_count(4)
    assert numbers_of_events(page) == [1, 2, 5, 6]


def eventually_sleeps_with(checkout, completed: int) -> None:
    deadline = time.monotonic() + 60
    while not (checkout.state.completed == completed and checkout.status == "sleeping"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def forget_events_of(checkout) -> None:
    from django_rivet.models import Event

    Event.objects.filter(actor_id=checkout.id).delete()
