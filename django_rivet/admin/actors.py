"""The admin of actors: an overview, a list, a page for each. Nothing can be added, edited or deleted.

What operators ask for is in ``asking``, what the list shows in ``listing``.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from django_rivet.admin.asking import AskedActors
from django_rivet.admin.listing import ActorList
from django_rivet.admin.operations import HANDLER_OPERATIONS, OPERATIONS
from django_rivet.admin.overview import overview_page
from django_rivet.admin.page import ActorPage, actor_page
from django_rivet.models import Actor

LIVE = "X-Rivet-Live"
"""The request header by which a page that is being looked at asks for the part of it that moves."""


class ActorAdmin(AskedActors, ActorList):
    """Append-only: workflows change actors, operators ask workflows to."""

    class Media:
        css = {"all": ("django_rivet/admin.css",)}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        overview = path(
            "overview/",
            self.admin_site.admin_view(require_safe(self.overview_view)),
            name="django_rivet_actor_overview",
        )
        return [overview, *self.operation_urls(), *super().get_urls()]

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """How all actors stand."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.page_context(request),
            "title": gettext("Overview"),
            "page": overview_page(self.admin_site.name),
        }
        return _living(request, "overview", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The page of one actor; there is no form behind it, so anything but reading is refused."""
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        actor = self.get_object(request, unquote(object_id))
        if actor is None:
            if LIVE in request.headers:
                # Who looks on is told by the page that is there; a message would be for somebody else.
                raise Http404
            return self.not_found(request, unquote(object_id))
        page = actor_page(actor, *_asked_for(request, actor.run.generation))
        context = {
            **self.page_context(request),
            "title": str(actor),
            "actor": actor,
            "page": page,
            **self._buttons(request, actor, page),
            **(extra_context or {}),
        }
        return _living(request, "actor", context)

    # Below: how it is done -------------------------------------------------------------------

    def _buttons(self, request: HttpRequest, actor: Actor, page: ActorPage) -> dict[str, Any]:
        on_workflow = [each for each in OPERATIONS if self.is_offered(request, actor, each)]
        on_handlers = [each for each in HANDLER_OPERATIONS if self.is_offered(request, actor, each)]
        return {
            "operations": [self.button(each, actor) for each in on_workflow],
            "handlers": [
                (handler, [self.button(each, actor, handler.id) for each in on_handlers]) for handler in page.handlers
            ],
        }


def _living(request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
    """The whole page, or only the part of it that moves. That part holds no messages: they are for whole pages."""
    template = f"{name}_now" if LIVE in request.headers else name
    response = TemplateResponse(request, f"admin/django_rivet/{template}.html", context)
    patch_vary_headers(response, [LIVE])
    return response


def _asked_for(request: HttpRequest, current: int) -> tuple[int | None, int | None]:
    """``?generation=`` (None: the current one) and ``?before=``."""
    generation, before = (_number(request.GET.get(name)) for name in ("generation", "before"))
    if generation is not None and generation > current:
        raise Http404(gettext("There is no such generation of this history."))
    return (None if generation == current else generation), before


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 18:
        raise Http404(gettext("There is no such part of this history."))
    return int(text)
