"""The admin of actors: a list, a page for each, and the operators' buttons. Nothing can be added, edited or deleted."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.admin import words
from django_rivet.admin.filters import TypeFilter
from django_rivet.admin.operations import OPERATIONS, Operation, operate, owed
from django_rivet.admin.page import actor_page
from django_rivet.admin.text import excerpt, read_error, visible
from django_rivet.models import Actor
from django_rivet.store.database import alias

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Actor]
else:
    _ModelAdmin = admin.ModelAdmin

MAX_KEY = 80
MAX_ERROR = 100


class ActorChangeList(ChangeList):
    """Reads no value that may be a megabyte long."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Actor]:
        found: QuerySet[Actor] = super().get_queryset(request, exclude_parameters)
        return found.defer("state", "input", "run__output")


class ActorAdmin(_ModelAdmin):
    """Append-only: workflows change actors, operators ask workflows to."""

    list_display = ("shown_key", "shown_type", "shown_status", "shown_error", "updated", "age")
    list_display_links = ("shown_key",)
    list_select_related = ("run",)
    list_filter = ("run__status", TypeFilter)
    list_per_page = 50
    # Counting all actors, for each page and for each filter, takes longer than anything else here.
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("key",)
    search_help_text = _("The beginning of a key, or a whole instance id.")
    ordering = ("-created_at", "id")
    actions = None

    class Media:
        css = {"all": ("django_rivet/admin.css",)}

    # Who may do what -------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_operation_permission(self, request: HttpRequest, operation: Operation) -> bool:
        """Each button asks for its own permission, and for that to see the actor."""
        return self.has_view_permission(request) and request.user.has_perm(operation.permission)

    # The list --------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Actor]:
        # What operators see must not lag behind what they do: no replica.
        return super().get_queryset(request).using(alias())

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ActorChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Actor], search_term: str
    ) -> tuple[QuerySet[Actor], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted = Q(key__startswith=term)
        with suppress(ValueError):
            wanted |= Q(pk=uuid.UUID(term))
        return queryset.filter(wanted), False

    @admin.display(description=_("key"), ordering="key")
    def shown_key(self, actor: Actor) -> str:
        return _shortened(actor.key, MAX_KEY)

    @admin.display(description=_("type"), ordering="type")
    def shown_type(self, actor: Actor) -> SafeString:
        # A long name may wrap behind the label of its app.
        return format_html_join(mark_safe(".<wbr>"), "{}", ((part,) for part in visible(actor.type).split(".")))

    @admin.display(description=_("status"))
    def shown_status(self, actor: Actor) -> SafeString:
        word = actor.run.get_status_display()
        if words.is_late(actor.run, timezone.now()):
            word = gettext("%(status)s, overdue") % {"status": word}
        return words.badge(actor.run.status, word)

    @admin.display(description=_("error"))
    def shown_error(self, actor: Actor) -> str:
        error = read_error(actor.run.error)
        return format_html("<span>{}</span>", _shortened(str(error), MAX_ERROR)) if error is not None else ""

    @admin.display(description=_("updated"), ordering="run__updated_at")
    def updated(self, actor: Actor) -> SafeString:
        return words.relative(actor.run.updated_at, timezone.now())

    @admin.display(description=_("age"), ordering="-created_at")
    def age(self, actor: Actor) -> SafeString:
        return words.age(actor.created_at, timezone.now())

    # One actor -------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        own = [
            path(
                f"<uuid:actor_id>/{operation.name}/",
                self.admin_site.admin_view(
                    require_http_methods(["GET", "HEAD", "POST"])(partial(self.operation_view, operation=operation))
                ),
                name=_url_name(operation.name),
            )
            for operation in OPERATIONS
        ]
        return own + super().get_urls()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Actor | None:
        actor = super().get_object(request, object_id, from_field)
        if actor is not None:
            # Here an actor is only ever looked at, by Django's own templates and log entries too.
            actor.key = visible(actor.key)
        return actor

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The page of one actor; there is no form behind it, so anything but reading is refused."""
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        actor = self.get_object(request, unquote(object_id))
        if actor is None:
            return self._not_found(request, unquote(object_id))
        context = {
            **self._context(request, actor),
            "page": actor_page(actor, *_asked_for(request, actor.run.generation)),
            "operations": [
                {"label": operation.label, "url": self._url(operation.name, actor), "is_grave": operation.is_grave}
                for operation in OPERATIONS
                if actor.run.status in operation.statuses and self.has_operation_permission(request, operation)
            ],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/django_rivet/actor.html", context)

    def operation_view(self, request: HttpRequest, actor_id: uuid.UUID, operation: Operation) -> HttpResponse:
        """GET asks whether to go on, POST does it."""
        if not self.has_operation_permission(request, operation):
            raise PermissionDenied
        actor = self.get_object(request, str(actor_id))
        if actor is None:
            return self._not_found(request, str(actor_id))
        if request.method == "POST":
            return self._operate(request, actor, operation)
        context = {
            **self._context(request, actor),
            "title": operation.label,
            "operation": operation,
            "has_effect": actor.run.status in operation.statuses,
            "status": words.badge(actor.run.status, actor.run.get_status_display()),
            "debts": owed(actor.pk) if operation.is_grave else 0,
        }
        return TemplateResponse(request, "admin/django_rivet/operation.html", context)

    # Below: how it is done -------------------------------------------------------------------

    def _context(self, request: HttpRequest, actor: Actor) -> dict[str, Any]:
        request.current_app = self.admin_site.name  # read by {% url %}
        return {
            **self.admin_site.each_context(request),
            "title": str(actor),
            "opts": self.opts,
            "actor": actor,
            "actor_url": self._url("change", actor),
        }

    def _url(self, name: str, actor: Actor) -> str:
        return reverse(f"admin:{_url_name(name)}", args=[actor.pk], current_app=self.admin_site.name)

    def _not_found(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = gettext("There is no actor with the instance id “%(id)s”; perhaps it was destroyed.")
        self.message_user(request, text % {"id": visible(object_id)}, messages.WARNING)
        return HttpResponseRedirect(reverse("admin:django_rivet_actor_changelist", current_app=self.admin_site.name))

    def _operate(self, request: HttpRequest, actor: Actor, operation: Operation) -> HttpResponse:
        try:
            done = operate(operation, actor, lambda: self._log(request, actor, operation))
        except ActorNotFoundError:
            return self._not_found(request, str(actor.pk))
        except OperationalError as error:
            text = gettext("Nothing was changed, the database was busy: %(error)s") % {"error": error}
            self.message_user(request, text, messages.ERROR)
        else:
            if done:
                self.message_user(request, str(operation.done), messages.SUCCESS)
            else:
                text = gettext("Nothing was changed: the status of the workflow does not allow “%(label)s”.")
                self.message_user(request, text % {"label": operation.label}, messages.WARNING)
        return HttpResponseRedirect(self._url("change", actor))

    def _log(self, request: HttpRequest, actor: Actor, operation: Operation) -> None:
        operator = request.user.pk
        assert operator is not None  # the site lets in nobody else
        LogEntry.objects.create(
            user_id=operator,
            content_type_id=ContentType.objects.get_for_model(Actor).pk,
            object_id=str(actor.pk),
            object_repr=str(actor)[:200],
            action_flag=CHANGE,
            change_message=str(operation.label),
        )


def _url_name(name: str) -> str:
    return f"django_rivet_actor_{name.replace('-', '_')}"


def _shortened(text: str, limit: int) -> str:
    beginning = excerpt(text, limit)
    return f"{beginning.text}…" if beginning.is_cut else beginning.text


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
