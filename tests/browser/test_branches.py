"""A join and a race on the operator's page, while a real worker runs their branches."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.browser.test_admin import ROOT, is_marked, mark, status, take_pictures
from tests.journeys.branch_actors import SOLD_OUT, PartyActor, TenderActor


def test_the_branches_of_a_join_are_watched_until_they_are_undone(shop, operator, screenshots):
    """All of them are there from the beginning; the page moves by itself as they end, fail and are rolled back."""
    page = operator
    party = PartyActor.create("ada")
    page.goto(f"{ROOT}{party.id}/change/")
    expect(branch(page, "flight")).to_contain_text("branch completed")
    expect(branch(page, "hotel")).to_contain_text("branch completed")
    expect(branch(page, "car")).to_contain_text("branch running")
    expect(status(page)).to_have_text("sleeping")
    take_pictures(page, screenshots, "admin-join-running")
    mark(page)

    party.send("cars", SOLD_OUT)

    expect(status(page)).to_have_text("failed")
    expect(branch(page, "car")).to_contain_text("branch failed")
    expect(page.locator(".rivet-tree .rivet-rollback")).to_have_count(3)
    assert is_marked(page)
    take_pictures(page, screenshots, "admin-join")


def test_the_branches_of_a_race_are_watched_until_the_loser_is_undone(shop, operator, screenshots):
    """Who won, who was cancelled, and that the loser's reservation was given back."""
    page = operator
    tender = TenderActor.create("ada")
    page.goto(f"{ROOT}{tender.id}/change/")
    expect(status(page)).to_have_text("sleeping")
    for name in ("north", "south"):
        expect(branch(page, name)).to_contain_text("branch running")
    take_pictures(page, screenshots, "admin-race-running")
    mark(page)

    tender.send("south", "yes")

    expect(status(page)).to_have_text("completed")
    expect(branch(page, "south")).to_contain_text("branch completed")
    expect(branch(page, "north")).to_contain_text("branch cancelled")
    expect(page.locator(".rivet-tree .rivet-rollback")).to_have_count(1)
    assert is_marked(page)
    take_pictures(page, screenshots, "admin-race")


def branch(page: Page, name: str) -> Locator:
    """Its line in the history."""
    return (
        page.locator(".rivet-tree summary, .rivet-tree .rivet-line", has=page.get_by_text(name, exact=True))
        .filter(has_text="branch")
        .first
    )
