"""Each actor type's own routes in the OpenAPI schema, with what it takes and gives.

In ``SPECTACULAR_SETTINGS["POSTPROCESSING_HOOKS"]``, after drf-spectacular's own hook::

    "django_rivet.api.openapi_types.add_actor_types"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from drf_spectacular.settings import spectacular_settings

from django_rivet.actors.definition import ActionDefinition, ActorDefinition
from django_rivet.actors.registry import registry
from django_rivet.api.base import RivetView
from django_rivet.api.description import describe_type
from django_rivet.api.openapi_dialect import as_openapi_30
from django_rivet.api.permissions import visible_types
from django_rivet.api.serializers import DEFAULT_WAIT_SECONDS, KEY_SCHEMA, MAX_WAIT_SECONDS

COMPONENTS = "#/components/schemas/"


def add_actor_types(result: dict[str, Any], request: Any = None, **kwargs: Any) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular. Over HTTP it tells of the types that the user may see."""
    components = result.setdefault("components", {}).setdefault("schemas", {})
    for definition in list(registry if request is None else _visible(request)):
        components |= {name: _dialect(schema) for name, schema in _components(definition)}
        for operation in _operations(definition):
            _add(result["paths"], operation)
        _add_other_methods(result["paths"], definition.type_name)
    return result


# Below: how it is done ---------------------------------------------------------------------------


def _visible(request: Any) -> Iterator[ActorDefinition]:
    view = RivetView()
    view.setup(request)
    return visible_types(request, view)


@dataclass(frozen=True, slots=True)
class _Operation:
    """A general operation as it is for one type."""

    id: str
    names: dict[str, str]
    """What its address names: parameters that it needs no more."""
    body: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None


def _components(definition: ActorDefinition) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that the type declares, as ``shop.CheckoutActor.queues.orders``, and the models inside."""
    described = describe_type(definition)
    schemas = {"input": described["input"], "state": described["state"]}
    for name, action in described["actions"].items():
        schemas |= {f"actions.{name}.arguments": action["arguments"], f"actions.{name}.output": action["output"]}
    for name, queue in described["queues"].items():
        schemas |= {f"queues.{name}": queue["body"], f"responses.{name}": queue["response"]}
    schemas |= {f"events.{name}": event["payload"] for name, event in described["events"].items()}
    for part, schema in schemas.items():
        name = _word(f"{definition.type_name}.{part}")
        # Two models of one name may stand in two parts: each part has its own.
        moved = json.loads(json.dumps(schema).replace('"#/$defs/', f'"{COMPONENTS}{name}.'))
        yield from ((f"{name}.{model}", each) for model, each in moved.pop("$defs", {}).items())
        yield name, moved


def _operations(definition: ActorDefinition) -> Iterator[_Operation]:
    """What is known of each general operation for this type."""

    def ref(name: str) -> dict[str, str]:
        return _ref(_word(f"{definition.type_name}.{name}"))

    names = {"type": definition.type_name}
    yield _Operation("actors_create", names, _object("key", key=KEY_SCHEMA, input=ref("input")))
    yield _Operation("actors_get_or_create", names, _object(input=ref("input")))
    shown = {"allOf": [_ref("RivetActor"), {"type": "object", "properties": {"state": ref("state")}}]}
    yield _Operation("actors_retrieve", names, answer=shown)
    for name, action in definition.actions.items():
        body = _object(kwargs=ref(f"actions.{name}.arguments")) if _takes_names(action) else None
        answer = _object("output", output=ref(f"actions.{name}.output"))
        yield _Operation("actors_call_action", {**names, "action": name}, body, answer)
    for name in definition.queues:
        response = {"type": "object", "properties": {"response": ref(f"responses.{name}")}}
        yield _Operation(
            "actors_send",
            {**names, "queue": name},
            _object("body", body=ref(f"queues.{name}"), **_WAITING),
            {"allOf": [_ref("RivetAnswer"), response]},
        )


_WAITING = {
    "wait": {"type": "boolean", "default": False},
    "timeout": {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": DEFAULT_WAIT_SECONDS},
}


def _add(paths: dict[str, Any], known: _Operation) -> None:
    """A copy of the general operation, under the address that has the names in it."""
    for address, methods in list(paths.items()):
        for method, general in methods.items():
            if general.get("operationId") == known.id:
                own = address
                for name, value in known.names.items():
                    own = own.replace(f"{{{name}}}", value)
                paths.setdefault(own, {})[method] = _copy(general, known)
                return


def _add_other_methods(paths: dict[str, Any], type_name: str) -> None:
    """An address that listed some of its methods only would deny the others."""
    names = {"type": type_name}
    for address, methods in list(paths.items()):
        own = paths.get(address.replace("{type}", type_name), methods)
        for method, general in methods.items():
            if method not in own:
                own[method] = _copy(general, _Operation(general["operationId"], names))


def _copy(general: dict[str, Any], known: _Operation) -> dict[str, Any]:
    operation = deepcopy(general)
    operation["operationId"] = _word("_".join([known.id, *known.names.values()]))
    operation["tags"] = [known.names["type"]]
    operation["parameters"] = [each for each in general["parameters"] if each["name"] not in known.names]
    if known.body is not None:
        operation["requestBody"]["content"]["application/json"]["schema"] = known.body
    if known.answer is not None:
        operation["responses"]["200"]["content"]["application/json"]["schema"] = known.answer
    return operation


def _takes_names(action: ActionDefinition) -> bool:
    """Whether every argument can be given by its name, which is what its schema lists."""
    by_place = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
    return not any(each.kind in by_place for each in list(signature(action.function).parameters.values())[1:])


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _ref(name: str) -> dict[str, str]:
    return {"$ref": COMPONENTS + name}


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def _dialect(schema: dict[str, Any]) -> dict[str, Any]:
    is_30 = str(spectacular_settings.OAS_VERSION).startswith("3.0")
    return as_openapi_30(schema) if is_30 else schema
