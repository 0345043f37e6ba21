"""Declared types as JSON Schema, for clients and OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema


def describe(adapter: TypeAdapter[Any], mode: JsonSchemaMode, ref_template: str) -> JsonSchemaValue:
    return adapter.json_schema(
        # What comes out bears the names of fields, what comes in may use an alias.
        by_alias=mode == "validation",
        ref_template=ref_template,
        schema_generator=_Tolerant,
        mode=mode,
    )


def describe_all(
    adapters: Mapping[str, TypeAdapter[Any]], ref_template: str
) -> tuple[dict[str, JsonSchemaValue], dict[str, JsonSchemaValue]]:
    """The schema of each name as clients may send it, and the definitions that they share."""
    schemas, shared = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters.items()],
        ref_template=ref_template,
        schema_generator=_Tolerant,
    )
    return {name: schemas[name, "validation"] for name in adapters}, shared.get("$defs", {})


class _Tolerant(GenerateJsonSchema):
    """A type that JSON does not know is described as anything, not as an error of the whole API."""

    def handle_invalid_for_json_schema(self, schema: CoreSchema, error_info: str) -> JsonSchemaValue:
        return {}

    def emit_warning(self, kind: Any, detail: str) -> None:
        """A default that JSON does not know is left out; nobody can do anything about the warning."""
