"""``?status=`` and ``?key_prefix=`` of a list of actors."""

from __future__ import annotations

from django.db.models import F, QuerySet, Value
from django.db.models.functions import Left
from django_filters import rest_framework as filters

from django_rivet.models import Actor, WorkflowRun


class ActorFilter(filters.FilterSet):  # type: ignore[misc]  # django-filter publishes no types
    """The prefix is compared letter by letter, in upper and lower case, on every database."""

    status = filters.ChoiceFilter(field_name="run__status", choices=WorkflowRun.Status.choices)
    key_prefix = filters.CharFilter(
        method="filter_key_prefix", strip=False, max_length=1024, help_text="Parts of a key are joined by a slash."
    )

    class Meta:
        model = Actor
        fields: list[str] = []

    def filter_key_prefix(self, actors: QuerySet[Actor], name: str, prefix: str) -> QuerySet[Actor]:
        # LIKE would find "Tenant-1" for "tenant-1" on SQLite.
        return actors.annotate(_start=Left(F("key"), len(prefix))).filter(_start=Value(prefix))
