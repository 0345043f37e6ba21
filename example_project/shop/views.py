"""The shop's page, and what it shows beside the orders. The orders themselves it reads from the actors' API.

Nothing here changes anything: buying goes over the API, and killing the worker over `example_project.demo.views`.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse

from django_rivet import Actor, ActorNotFoundError
from example_project.shop.actors import (
    BillingActor,
    CheckoutActor,
    DirectCheckoutActor,
    InventoryActor,
    LedgerSyncActor,
    OrderActor,
)
from example_project.shop.models import GatewayRequest, Invoice, LedgerEntry

View = Callable[..., HttpResponseBase]

PROGRAMS: dict[str, type[Actor[Any]]] = {
    "error-hook": LedgerSyncActor,
    "saga-in-the-loop": DirectCheckoutActor,
    "saga-over-actors": OrderActor,
    "checkout": CheckoutActor,
}
"""What the page links to, by the word in the address."""

SHOWN_ROWS = 12
SHOWN_STOCK = 60


def content_security(view: View) -> View:
    """Scripts, styles and connections of our own address only: what somebody smuggles into a page stays text."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(request, *args, **kwargs)
        host = request.get_host()
        response["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            # Not every browser takes 'self' to mean WebSockets too.
            f"connect-src 'self' ws://{host} wss://{host}; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        return response

    return guarded


def page_for_staff(view: View) -> View:
    """Who is not logged in is asked to, and who is nobody of ours is refused: the same who may look at the actors."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not may_watch(request.user):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return content_security(login_required(guarded))


def may_watch(user: Any) -> bool:
    return isinstance(user, User) and user.is_staff and user.has_perm("django_rivet.view_actor")


@page_for_staff
def shop(request: HttpRequest) -> HttpResponse:
    programs = [
        {"name": name, "title": actor_class.__name__, "about": _first_sentence(actor_class)}
        for name, actor_class in PROGRAMS.items()
    ]
    shown = {"programs": programs, "plug_url": _plug_url(), **_books()}
    return render(request, "shop/shop.html", shown)


@page_for_staff
def books(request: HttpRequest) -> HttpResponse:
    """The part of the page beside the orders, for the script that puts it there."""
    return render(request, "shop/books.html", _books())


@page_for_staff
def program(request: HttpRequest, name: str) -> HttpResponse:
    """An actor's own code, as text."""
    if name not in PROGRAMS:
        raise Http404
    actor_class = PROGRAMS[name]
    source, first_line = inspect.getsourcelines(actor_class)
    lines = [{"number": number, "text": line.rstrip("\n")} for number, line in enumerate(source, first_line)]
    shown = {
        "title": actor_class.__name__,
        "about": inspect.getdoc(actor_class) if "__doc__" in vars(actor_class) else "",
        "file": actor_class.__module__.replace(".", "/") + ".py",
        "lines": lines,
    }
    return render(request, "shop/program.html", shown)


# Below: how it is done ---------------------------------------------------------------------------


def _books() -> dict[str, Any]:
    """What stands in the gateway's books and in ours; looking at it makes no actors."""
    ledger = LedgerEntry.objects.order_by("-id").select_related("refunds")
    requests = GatewayRequest.objects.order_by("-id")
    reserved = _state(InventoryActor, "reserved", [])
    return {
        "ledger": ledger[:SHOWN_ROWS],
        "requests": requests[:SHOWN_ROWS],
        "reserved": list(reversed(reserved))[:SHOWN_STOCK],
        "reserved_count": len(reserved),
        "invoice_count": Invoice.objects.count(),
        "earned": _state(BillingActor, "earned", 0),
    }


def _state(actor_class: type[Actor[Any]], name: str, default: Any) -> Any:
    try:
        return getattr(actor_class.get("main").state, name)
    except ActorNotFoundError:
        return default


def _plug_url() -> str:
    """Empty where nobody would start the worker again: only the demo has such an address."""
    try:
        return reverse("pull-the-plug")
    except NoReverseMatch:
        return ""


def _first_sentence(actor_class: type[Actor[Any]]) -> str:
    about = vars(actor_class).get("__doc__") or "The checkout that this page watches."
    return str(about.strip().partition("\n")[0])
