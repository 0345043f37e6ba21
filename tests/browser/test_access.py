"""Who is not let in sees nothing of actors: not on the page, not over HTTP, not over the WebSocket."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, expect

from example_project.shop.actors import CheckoutActor

SECRET = "order-of-somebody"

ADDRESSES = [
    "/",
    "/books/",
    "/programs/checkout/",
    "/api/actors/",
    "/api/actors/shop.CheckoutActor/",
    "/api/actors/shop.CheckoutActor/main/",
    "/api/actors/shop.CheckoutActor/main/history/",
    "/api/actors/shop.CheckoutActor/main/queues/",
]

LISTEN = """() => new Promise((resolve) => {
    const heard = [];
    const socket = new WebSocket(`ws://${location.host}/ws/rivet/shop.CheckoutActor/main/`);
    socket.onopen = () => heard.push("open");
    socket.onmessage = ({ data }) => heard.push(data);
    socket.onclose = () => resolve(heard);
    setTimeout(() => resolve([...heard, "still there"]), 20000);
})"""

FETCH = "async (address) => { const got = await fetch(address); return [got.url, got.status, await got.text()]; }"


@pytest.fixture
def somebody_bought(transactional_db):
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": SECRET})
    return checkout


def test_an_anonymous_browser_sees_nothing_of_actors(shop, somebody_bought, new_context):
    """Guarantee 12: the page leads to the login, the API and the WebSocket refuse."""
    context: BrowserContext = new_context()
    page = context.new_page()

    page.goto("/")

    expect(page).to_have_url(f"{shop.root}/login/?next=/")
    assert SECRET not in page.content()
    assert "Actor" not in page.content()
    for address in ADDRESSES:
        url, status, text = page.evaluate(FETCH, address)
        assert status in (401, 403) or url.startswith(f"{shop.root}/login/"), address
        assert SECRET not in text, address
    assert page.evaluate(LISTEN) == []


def test_a_customer_who_is_no_staff_sees_nothing_of_actors_either(shop, somebody_bought, new_context):
    """Logged in, and refused everywhere."""
    User.objects.create_user("customer", password="customer")
    page = new_context().new_page()
    page.goto("/login/")
    page.get_by_label("User").fill("customer")
    page.get_by_label("Password").fill("customer")
    with page.expect_response(f"{shop.root}/") as response:
        page.get_by_role("button", name="Log in").click()

    assert response.value.status == 403
    for address in ADDRESSES:
        _, status, text = page.evaluate(FETCH, address)
        # The list of types is for everybody, and has those in it that one may see.
        assert status == (200 if address == "/api/actors/" else 403), address
        assert SECRET not in text, address
        assert "CheckoutActor" not in text, address
    assert page.evaluate(LISTEN) == []
