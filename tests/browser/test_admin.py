"""The operator's pages in a browser: the failed saga is found, looked at and mended, while real workers work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.test_access import FETCH
from tests.journeys.admin_actors import GuestBookActor, TripActor, answers
from tests.journeys.models import Effect

HOTEL, FLIGHT = "hotel", "flight"
ROOT = "/admin/django_rivet/actor/"


@pytest.fixture
def failed_trip(shop) -> Iterator[TripActor]:
    """Its rollback stands still at the hotel, the older flight still to do."""
    return TripActor.create(("tenant-1", "trip-7"))


def status(page: Page) -> Locator:
    return page.locator(".rivet-facts .rivet-status").first


def mark(page: Page) -> None:
    """So that a page that is loaded again would be found out."""
    page.evaluate("document.documentElement.dataset.mark = 'not loaded again'")


def is_marked(page: Page) -> bool:
    return page.evaluate("document.documentElement.dataset.mark") == "not loaded again"


def test_an_operator_finds_a_failed_saga_and_mends_it(failed_trip, operator, screenshots):
    """From the overview to its page; the handler is retried until it works, the next one skipped with a reason."""
    page = operator
    furnish(screenshots)
    page.get_by_role("link", name="Durable actors").first.click()
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".rivet-urgent li").first).to_contain_text("1 rollback failed")
    expect(page.locator(".rivet-counts thead")).not_to_contain_text("pending")
    take_pictures(page, screenshots, "admin-overview")

    page.locator(".rivet-urgent").get_by_role("link", name="rollback failed").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    if screenshots is not None:
        page.goto(ROOT)
        take_pictures(page, screenshots, "admin-list")
    page.get_by_role("link", name="tenant-1/trip-7").click()
    expect(status(page)).to_have_text("rollback failed")
    expect(page.locator("#rivet-decisions")).to_contain_text("CriticalError: the hotel does not answer")
    take_pictures(page, screenshots, "admin-actor")

    retry(page)
    expect(page.locator(".messagelist")).to_have_text("The handler is tried again.")
    expect(status(page)).to_have_text("rollback failed")
    Effect.objects.create(name=answers(HOTEL))
    retry(page)
    expect(page.locator("#rivet-decisions")).to_contain_text("the flight does not answer")
    expect(undo_of(page, HOTEL)).to_contain_text("rolled back")

    page.locator("#rivet-decisions").get_by_role("link", name="Skip handler").click()
    page.get_by_role("button", name="Yes, skip it").click()
    expect(page.get_by_label("Reason")).to_be_focused()  # a reason is required
    page.get_by_label("Reason").fill("refunded by telephone")
    take_pictures(page, screenshots, "admin-question")
    page.get_by_role("button", name="Yes, skip it").click()

    expect(status(page)).to_have_text("failed")
    expect(page.locator("#rivet-decisions")).to_have_count(0)
    expect(undo_of(page, FLIGHT)).to_contain_text("rollback skipped")
    expect(undo_of(page, FLIGHT)).to_contain_text("self:cancel: refunded by telephone (demo)")
    take_pictures(page, screenshots, "admin-rollback")
    assert failed_trip.state.booked == [FLIGHT]
    log = [entry.change_message for entry in LogEntry.objects.order_by("pk")]
    assert log == [
        "Retry handler of step “hotel”",
        "Retry handler of step “hotel”",
        "Skip handler of step “flight”: refunded by telephone",
    ]


def retry(page: Page) -> None:
    page.locator("#rivet-decisions").get_by_role("link", name="Retry handler").click()
    page.get_by_role("button", name="Yes, retry it").click()
    expect(page.locator("#rivet-now")).to_be_visible()


def undo_of(page: Page, step: str) -> Locator:
    return page.locator(".rivet-rollback", has=page.locator(".rivet-name", has_text=re.compile(f"^{step}$")))


def test_the_page_moves_while_a_workflow_runs_and_keeps_what_the_reader_has_unfolded(shop, operator):
    """No reload; focus, selection and folding stay where they were; a hidden tab asks nothing."""
    page = operator
    book = GuestBookActor.create("hall")
    page.goto(f"{ROOT}{book.id}/change/")
    expect(status(page)).to_have_text("sleeping")
    expect(page.locator("#rivet-watch")).to_contain_text("Live")
    mark(page)

    book.send("guests", "Ada")
    messages = page.locator(".rivet-tree .rivet-more")
    expect(messages).to_have_count(1)
    messages.first.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(messages.first.locator("pre")).to_contain_text("Ada")
    expect(messages.first.locator("pre")).to_be_visible()

    book.send("guests", "Grace")
    expect(messages).to_have_count(2)
    expect(page.locator("#rivet-state + .rivet-value")).to_contain_text("Grace")
    expect(messages.first.locator("pre")).to_be_visible()
    expect(messages.last.locator("pre")).to_be_hidden()
    expect(messages.first.locator("summary")).to_be_focused()
    assert is_marked(page)

    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#rivet-watch")).to_contain_text("Stopped")
    book.cancel()
    page.get_by_role("button", name="Go on").click()
    expect(status(page)).to_have_text("cancelled")
    expect(page.locator("#rivet-watch")).to_contain_text("Nothing more will happen here")
    assert is_marked(page)


def test_a_hidden_tab_asks_nothing_and_catches_up_when_it_is_looked_at(shop, operator):
    """Twenty forgotten tabs cost the server nothing."""
    page = operator
    book = GuestBookActor.create("hall")
    page.goto(f"{ROOT}{book.id}/change/")
    expect(status(page)).to_have_text("sleeping")
    hide(page, is_hidden=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    book.cancel()
    page.wait_for_timeout(3000)
    assert asked == []

    hide(page, is_hidden=False)
    expect(status(page)).to_have_text("cancelled")


def hide(page: Page, *, is_hidden: bool) -> None:
    page.evaluate(
        """(isHidden) => {
            Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )


def test_a_page_that_outlives_its_session_says_so(shop, operator):
    """And asks no more, instead of showing what was true an hour ago."""
    page = operator
    book = GuestBookActor.create("hall")
    page.goto(f"{ROOT}{book.id}/change/")
    expect(page.locator("#rivet-watch")).to_contain_text("Live")

    page.context.clear_cookies()

    expect(page.locator("#rivet-watch")).to_contain_text("load it again")


def test_a_strict_content_security_policy_has_nothing_to_block(failed_trip, operator):
    """Nothing inline, nothing from elsewhere; and the page moves all the same."""
    page = operator
    page.context.add_init_script(
        "window.blocked = []; document.addEventListener('securitypolicyviolation',"
        " ({ violatedDirective, sourceFile }) => window.blocked.push(`${violatedDirective} ${sourceFile}`))"
    )
    page.route(f"**{ROOT}**", with_policy)

    page.goto(f"{ROOT}overview/")
    expect(page.locator("#rivet-watch")).to_contain_text("Live")
    expect(page.locator(".rivet-urgent li").first).to_contain_text("1 rollback failed")
    assert page.evaluate("window.blocked") == []
    page.get_by_role("link", name="tenant-1/trip-7").click()
    expect(page.locator("#rivet-watch")).to_contain_text("Live")
    assert page.evaluate("window.blocked") == []
    traceback = page.locator(".rivet-tree .rivet-more").last
    traceback.locator("summary").first.click()
    failed_trip.cancel()
    expect(status(page)).to_have_text("cancelled")
    expect(page.locator("#rivet-fault")).to_have_count(0)
    expect(traceback.locator("pre").first).to_be_visible()  # though what stood above it is gone
    page.get_by_role("link", name="Mark done").click()
    expect(page.get_by_label("Note")).to_be_focused()
    assert page.evaluate("window.blocked") == []


def with_policy(route: Route) -> None:
    answer = route.fetch()
    route.fulfill(response=answer, headers={**answer.headers, "Content-Security-Policy": "default-src 'self'"})


def test_without_scripts_the_page_is_whole(shop, new_context, browser, operator):
    """Every button and every fold works; only nothing moves by itself."""
    book = GuestBookActor.create("hall")
    context = browser.new_context(
        base_url=shop.root, java_script_enabled=False, storage_state=operator.context.storage_state()
    )
    page = context.new_page()
    page.goto(f"{ROOT}{book.id}/change/")

    expect(page.locator("#rivet-watch")).to_be_hidden()
    page.get_by_role("link", name="Cancel…", exact=True).click()
    page.get_by_role("button", name="Yes, cancel it").click()

    expect(status(page)).to_have_text("cancelled")


def test_the_pages_fit_a_telephone_and_the_keyboard(failed_trip, operator):
    """Nothing is wider than the screen, and the way from the overview to a decision needs no mouse."""
    page = operator
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(f"{ROOT}overview/")
    expect(page.locator(".rivet-urgent li").first).to_contain_text("1 rollback failed")
    fits(page, 400)

    page.get_by_role("link", name="tenant-1/trip-7").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#rivet-decisions")).to_be_visible()
    fits(page, 400)
    page.locator("#rivet-decisions").get_by_role("link", name="Mark done").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Note")).to_be_focused()
    fits(page, 400)
    page.keyboard.type("cancelled by letter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(undo_of(page, HOTEL)).to_contain_text("rolled back by hand")
    page.goto(ROOT)
    fits(page, 400)


def fits(page: Page, width: int) -> None:
    """Once all style sheets are there, of which the last makes it narrow."""
    page.wait_for_function("width => document.documentElement.scrollWidth === width", arg=width)


def test_an_anonymous_browser_sees_nothing_of_the_admin(failed_trip, new_context):
    """Neither page nor what a page asks for behind one's back; every address leads to the login."""
    page = new_context().new_page()
    page.goto("/admin/login/")
    own = f"{ROOT}{failed_trip.id}/"
    asked = {"X-Rivet-Live": "1"}

    for address in (
        ROOT,
        f"{ROOT}overview/",
        f"{own}change/",
        f"{own}history/",
        f"{own}cancel/",
        f"{own}skip-handler/",
    ):
        for headers in ({}, asked):
            url, _, text = page.evaluate(FETCH_WITH, [address, headers])
            assert url.startswith(page.url.partition("?")[0]), address
            assert "trip-7" not in text
            assert "TripActor" not in text


FETCH_WITH = FETCH.replace("async (address) =>", "async ([address, headers]) =>").replace(
    "fetch(address)", "fetch(address, { headers })"
)


def furnish(pictures: Path | None) -> None:
    """More to see than one test needs."""
    if pictures is None:
        return
    for number, guests in enumerate((["Ada", "Grace"], ["Alan"], [])):
        book = GuestBookActor.create(f"hall-{number}")
        for guest in guests:
            book.send("guests", guest)
    GuestBookActor.create("closed").cancel()
    GuestBookActor.create("held").pause()


def take_pictures(page: Page, folder: Path | None, name: str) -> None:
    if folder is None or connection.vendor != "sqlite":
        return
    for suffix, width, scheme in (
        ("", 1280, "light"),
        ("-dark", 1280, "dark"),
        ("-narrow", 400, "light"),
        ("-narrow-dark", 400, "dark"),
    ):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two
        page.screenshot(path=folder / f"{name}{suffix}.png", full_page=True, animations="disabled")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
