"""A join on the operator's page, while a real worker runs its branches."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.browser.test_admin import ROOT, operator, status, take_pictures  # noqa: F401 - a fixture
from tests.journeys.branch_actors import SOLD_OUT, PartyActor


def entry(around: Page | Locator, name: str) -> Locator:
    return around.locator("li", has=around.page.locator(f":scope > details > summary .rivet-name:text-is('{name}')"))
