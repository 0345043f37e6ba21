"""JSON Schema of 2020, as pydantic writes it, in the older dialect of OpenAPI 3.0."""

from __future__ import annotations

import re
from typing import Any


def as_openapi_30(schema: Any) -> Any:
    """The same schema for OpenAPI 3.0. What that cannot say is left out: it then allows more, never less."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    found = {name: value for name, value in schema.items() if _KEPT.fullmatch(name)}
    _translate_null(found)
    _translate_words(schema, found)
    for name in ("allOf", "anyOf", "oneOf"):
        if name in found:
            found[name] = [as_openapi_30(each) for each in found[name]]
    for name in ("items", "not", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = as_openapi_30(found[name])
    if "properties" in found:
        found["properties"] = {name: as_openapi_30(each) for name, each in found["properties"].items()}
    if "$ref" in found and len(found) > 1:
        # What stands beside a reference is not read.
        found = {"allOf": [{"$ref": found.pop("$ref")}], **found}
    return found


# Below: how it is done ---------------------------------------------------------------------------

_KEPT = re.compile(
    "[$]ref|title|description|type|format|enum|default|nullable|deprecated|readOnly|writeOnly|discriminator"
    "|allOf|anyOf|oneOf|not|items|uniqueItems|properties|additionalProperties|required|pattern|multipleOf"
    "|(min|max)(imum|Items|Length|Properties)|exclusive(Min|Max)imum"
)


def _translate_null(found: dict[str, Any]) -> None:
    """Null is no type there, but a flag beside one."""
    for name in ("anyOf", "oneOf"):
        choices = found.get(name, [])
        others = [each for each in choices if each != {"type": "null"}]
        if len(others) < len(choices):
            del found[name]
            found["nullable"] = True
            if len(others) == 1 and not found.keys() & others[0].keys():
                found |= others[0]
            else:
                found[name] = others
    kinds = found.get("type")
    if kinds == "null":
        found.pop("type")
        found |= {"enum": [None], "nullable": True}
    elif isinstance(kinds, list):
        found.pop("type")
        found["anyOf"] = [{"type": each} for each in kinds if each != "null"]
        if "null" in kinds:
            found["nullable"] = True


def _translate_words(schema: dict[str, Any], found: dict[str, Any]) -> None:
    if "const" in schema:
        found["enum"] = [schema["const"]]
    for bound, word in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        limit = found.get(word)
        if limit is not None and not isinstance(limit, bool):
            found |= {bound: limit, word: True}
    if found.get("required") == []:
        del found["required"]
    if found.get("type") == "array":
        # A tuple is a list of anything, of the same length.
        found["items"] = {} if "prefixItems" in schema else found.get("items", {})
