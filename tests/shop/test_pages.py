"""The shop's pages: for staff who may view actors, read-only, and with nothing in them but text."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import NoReverseMatch, reverse

from django_rivet.models import Actor
from example_project.shop.actors import CheckoutActor, InventoryActor
from example_project.shop.models import GatewayOrder, GatewayRequest, LedgerEntry

pytestmark = pytest.mark.django_db

PAGES = ["/", "/books/", "/programs/error-hook/"]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def staff() -> Client:
    return logged_in(is_staff=True, permission="view_actor")


def logged_in(*, is_staff: bool = False, permission: str = "") -> Client:
    user = User.objects.create_user("somebody", is_staff=is_staff)
    user.user_permissions.set(Permission.objects.filter(codename=permission))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("page", PAGES)
def test_who_is_not_logged_in_is_asked_to(client, page):
    """Nothing of the page is in the answer."""
    answer = client.get(page)

    assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={page}")
    assert answer.content == b""


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("who", [{}, {"is_staff": True}, {"permission": "view_actor"}], ids=str)
def test_who_may_not_look_at_actors_is_refused(who, page):
    """It takes staff with the permission, as it does in the admin."""
    assert logged_in(**who).get(page).status_code == 403


@pytest.mark.parametrize("page", [*PAGES, "/login/"])
def test_pages_allow_no_scripts_but_our_own(staff, page):
    """No inline scripts or styles, nor any from elsewhere; and no page needs them."""
    answer = staff.get(page)

    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
    assert "unsafe" not in policy
    html = answer.content.decode()
    assert "<style" not in html
    assert " style=" not in html
    assert " onclick=" not in html
    assert html.count("<script") == html.count('<script type="module" src="/static/shop/')


@pytest.mark.parametrize("page", PAGES)
def test_looking_changes_nothing(staff, page):
    """No actor is made by who looks for one."""
    assert staff.get(page).status_code == 200
    assert not Actor.objects.exists()


def test_stock_and_ledger_stand_beside_the_orders(staff, rivet):
    """What an order has left in our books and in the gateway's."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "order-1"})
    rivet.drive(checkout)

    html = staff.get("/books/").content.decode()

    assert "<dt>reserved</dt><dd>1</dd>" in html
    assert "<dt>earned</dt><dd>25.00</dd>" in html
    assert '<tr><th scope="row">order-1</th><td>charge</td><td class="number">25.00</td></tr>' in html
    assert "<td>charged</td>" in html


def test_hostile_orders_are_shown_as_text(staff):
    """Ids come from outside."""
    order = GatewayOrder.objects.create(order_id=HOSTILE)
    now = "2026-01-01T00:00:00Z"
    GatewayRequest.objects.create(
        order=order, kind="charge", idempotency_key=HOSTILE, answer=HOSTILE[:20], asked_at=now
    )
    LedgerEntry.objects.create(order=order, kind="charge", idempotency_key=HOSTILE, amount=1, lands_at=now)
    InventoryActor.get_or_create("main").reserve(HOSTILE)

    for page in ("/", "/books/"):
        html = staff.get(page).content.decode()
        assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 3
        assert "<img" not in html


def test_a_program_is_its_own_source(staff):
    """As text, with the place where it stands."""
    html = staff.get("/programs/error-hook/").content.decode()

    assert "class LedgerSyncActor(Actor):" in html
    assert "&quot;fetch&quot;," in html
    assert "example_project/shop/actors.py" in html
    assert "class DirectCheckoutActor" not in html
    assert staff.get("/programs/anything/").status_code == 404


def test_without_a_demo_there_is_no_plug_to_pull(staff):
    """Neither a button nor an address."""
    assert "data-pulls-plug" not in staff.get("/").content.decode()
    assert staff.post("/demo/plug/", {"order": "order-1"}).status_code == 404
    with pytest.raises(NoReverseMatch):
        reverse("pull-the-plug")
