"""How the API describes itself to drf-spectacular."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from drf_spectacular.extensions import OpenApiSerializerExtension, OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from django_rivet.api.serializers import ErrorSerializer
from django_rivet.models import WorkflowRun

Direction = Literal["request", "response"]

ERRORS = dict.fromkeys((400, 403, 404), ErrorSerializer)
CONFLICTS = {**ERRORS, 409: ErrorSerializer}
REFUSALS = {**CONFLICTS, 413: ErrorSerializer, 429: ErrorSerializer}

KEY = OpenApiParameter(
    "key", str, OpenApiParameter.PATH, description="Its parts are joined by ~; a ~ inside a part is written ~0."
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="The same key and body again: the first answer, and no second message.",
)


class SerializerNames(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # registers itself, untyped
    """Components of ours are told from the project's by their names."""

    target_class = "django_rivet.api.serializers.RivetSerializer"
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:
        name = type(self.target).__name__.removesuffix("Serializer")
        return f"Rivet{name}"

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        describe: Callable[..., dict[str, Any]] = auto_schema._map_serializer
        return describe(self.target, direction, bypass_extensions=True)


class StatusComponent(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # registers itself, untyped
    """One component for all: drf-spectacular has to guess a name for choices that it finds inside fields."""

    target_class = "django_rivet.api.serializers.StatusField"

    def get_name(self) -> str:
        return "RivetActorStatus"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        return {"type": "string", "enum": list(WorkflowRun.Status.values)}
