"""Actor types as JSON Schema: what a client may send and what it will get."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from django_rivet.actors.declarations import Event, Queue
from django_rivet.actors.definition import ActionDefinition, ActorDefinition


def describe_type(definition: ActorDefinition) -> dict[str, Any]:
    """All that a client can know of a type before it has met an actor of it."""
    return {
        "type": definition.type_name,
        "description": _words(definition.actor_class),
        "has_workflow": definition.workflow is not None,
        "input": definition.input_type.json_schema("validation"),
        "state": definition.state_type.value_type.json_schema("serialization"),
        "actions": {name: _action(each) for name, each in definition.actions.items()},
        "queues": {name: _queue(each) for name, each in definition.queues.items()},
        "events": {name: _event(each) for name, each in definition.events.items()},
    }


# Below: how it is done ---------------------------------------------------------------------------


def _action(action: ActionDefinition) -> dict[str, Any]:
    return {
        "description": _words(action.function),
        "readonly": action.readonly,
        "arguments": action.signature.arguments_schema(),
        "output": action.signature.result_schema(),
    }


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        "body": queue.body.json_schema("validation"),
        "response": queue.response.json_schema("serialization"),
    }


def _event(event: Event) -> dict[str, Any]:
    return {"payload": event.payload.json_schema("serialization")}


def _words(documented: Any) -> str:
    # Its own words only: inspect.getdoc would give a class without any those of its base.
    return cleandoc(documented.__doc__ or "")
