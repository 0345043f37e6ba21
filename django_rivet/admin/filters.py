"""The filters of the list of actors."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_rivet.admin.lateness import late_runs
from django_rivet.admin.text import visible
from django_rivet.models import Actor
from django_rivet.store.database import rows

MAX_TYPES = 100

# SELECT DISTINCT would read every actor; this takes one look into the index per type.
_STORED_TYPES = """
    WITH RECURSIVE known(type) AS (
        SELECT min(type) FROM django_rivet_actor
        UNION ALL
        SELECT (SELECT min(a.type) FROM django_rivet_actor a WHERE a.type > known.type)
        FROM known WHERE known.type IS NOT NULL
    )
    SELECT type FROM known WHERE type IS NOT NULL LIMIT %s
"""


class TypeFilter(SimpleListFilter):
    """The types that there are actors of, also those that no class is registered for any more."""

    title = _("type")
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        types = [str(name) for (name,) in rows(_STORED_TYPES, [MAX_TYPES])]
        return [(name, visible(name)) for name in types]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Actor]) -> QuerySet[Actor]:
        wanted = self.value()
        if wanted is None:
            return queryset
        # PostgreSQL takes no NUL in a value, and no type bears one.
        return queryset.filter(type=wanted) if "\0" not in wanted else queryset.none()


class OverdueFilter(SimpleListFilter):
    """Those that the overview and ``rivet_status`` count as overdue."""

    title = _("due time")
    parameter_name = "overdue"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        return [("1", _("Overdue"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Actor]) -> QuerySet[Actor]:
        if self.value() != "1":
            return queryset
        return queryset.filter(pk__in=late_runs().values("pk"))
