"""A real browser, and the shop that it looks at: the web process and the worker that the demo starts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.chromium import ARGUMENTS, find_chromium
from tests.browser.supervisor import Shop

LEASE_SECONDS = 3.0
PATIENCE = 60_000
"""Milliseconds that a page has for what it is to show; machines that are busy are slow."""

LogIn = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes all of them. Those of one module run one after another: two cores bear few browsers."""
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.journey)
            item.add_marker(pytest.mark.timeout(420))
            item.add_marker(pytest.mark.xdist_group(f"browser-{item.path.stem}"))


@pytest.fixture
def shop(child_environment: dict[str, str], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """Without a broker on SQLite, with Redis on PostgreSQL: the two ways in which it is run."""
    redis = request.getfixturevalue("redis_url") if connection.vendor == "postgresql" else ""
    own = {"RIVET_TEST_SETTINGS": json.dumps({"LEASE_SECONDS": LEASE_SECONDS}), "PYTHONUNBUFFERED": "1"}
    shop = Shop(tmp_path, {**child_environment, **own, "REDIS_URL": redis, "DEBUG": "1"})
    try:
        shop.start()
        yield shop
    finally:
        shop.stop()


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """Made for each test: as long as Playwright is there, its event loop is, in which others can't run theirs."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # the loop stands still while a test asks the database
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), headless=True, args=ARGUMENTS)
        yield browser
        browser.close()
        # Beside a running loop Django keeps connections of its own, which nobody closes when the loop is gone.
        connections.close_all()


@pytest.fixture
def new_context(browser: Browser, shop: Shop) -> Iterator[Callable[[], BrowserContext]]:
    """A browser of somebody else: no cookies of others. What a page complains of fails the test."""
    complaints: list[str] = []

    def make() -> BrowserContext:
        context = browser.new_context(base_url=shop.root, viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        return context

    yield make
    assert complaints == []


@pytest.fixture
def demo_user(transactional_db: None) -> User:
    return User.objects.create_superuser("demo", password="demo")


@pytest.fixture
def log_in(new_context: Callable[[], BrowserContext], demo_user: User) -> LogIn:
    """``log_in()``: a page of the shop in a browser of its own, logged in through the login page, and live."""

    def through_the_page() -> Page:
        page = new_context().new_page()
        page.goto("/")
        page.get_by_label("User").fill("demo")
        page.get_by_label("Password").fill("demo")
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#connection")).to_have_text("live")
        return page

    return through_the_page


@pytest.fixture
def operator(new_context: Callable[[], BrowserContext], demo_user: User) -> Page:
    """On the front page of the admin, logged in through its own page."""
    page = new_context().new_page()
    page.goto("/admin/")
    page.get_by_label("Username").fill("demo")
    page.get_by_label("Password").fill("demo")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Site administration")).to_be_visible()
    return page


@pytest.fixture
def screenshots() -> Path | None:
    """Where pictures of the pages are wanted: ``RIVET_TEST_SCREENSHOTS``, a folder. Else none are taken."""
    folder = os.environ.get("RIVET_TEST_SCREENSHOTS")
    return Path(folder) if folder else None
