"""The list of actors: columns, filters, search."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_rivet.admin import words
from django_rivet.admin.filters import OverdueFilter, TypeFilter
from django_rivet.admin.lateness import late_among
from django_rivet.admin.text import excerpt, read_error
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

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        shown: Any = list(self.result_list)
        late = late_among([actor.pk for actor in shown])
        for actor in shown:
            actor.is_late = actor.pk in late
        self.result_list = shown


class ActorList(_ModelAdmin):
    """What the list shows."""

    list_display = ("shown_key", "shown_type", "shown_status", "shown_error", "updated", "age")
    list_display_links = ("shown_key",)
    list_select_related = ("run",)
    list_filter = ("run__status", OverdueFilter, TypeFilter)
    list_per_page = 50
    # Counting all actors, for each page and for each filter, takes longer than anything else here.
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("key",)
    search_help_text = _("The beginning of a key, or a whole instance id.")
    ordering = ("-created_at", "id")
    actions = None

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

    # Columns ---------------------------------------------------------------------------------

    @admin.display(description=_("key"), ordering="key")
    def shown_key(self, actor: Actor) -> str:
        return _shortened(actor.key, MAX_KEY)

    @admin.display(description=_("type"), ordering="type")
    def shown_type(self, actor: Actor) -> SafeString:
        return words.type_name(actor.type)

    @admin.display(description=_("status"))
    def shown_status(self, actor: Actor) -> SafeString:
        word = actor.run.get_status_display()
        if getattr(actor, "is_late", False):
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


# Below: how it is done ---------------------------------------------------------------------------


def _shortened(text: str, limit: int) -> str:
    beginning = excerpt(text, limit)
    return f"{beginning.text}…" if beginning.is_cut else beginning.text
