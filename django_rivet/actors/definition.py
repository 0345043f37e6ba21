"""What an actor class declares, read once when the class is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

from django.apps import apps

from django_rivet.actors.declarations import Event, Queue
from django_rivet.actors.exceptions import UnknownActionError, UnknownEventError, UnknownQueueError
from django_rivet.actors.meta import ActorMeta
from django_rivet.actors.signature import Signature
from django_rivet.actors.state import StateType
from django_rivet.actors.validation import ValueType
from django_rivet.engine.exceptions import RivetError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ActionDefinition:
    """A method that callers may run on a handle."""

    name: str
    function: Callable[..., Any]
    """As it stands on the class: call it with an actor and what ``signature`` has bound."""
    signature: Signature
    readonly: bool = False
    permission_classes: tuple[Any, ...] | None = None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """What the actor does from its creation to its end."""

    name: str
    function: Callable[..., Any]
    """Call it with an actor and a context."""
    on_error: Callable[..., Any] | None = None
    """Call it with an actor and an error event."""


@dataclass(frozen=True, eq=False)
class ActorDefinition:
    """All that is known of an actor type before any row exists."""

    actor_class: type[Any]
    meta: ActorMeta
    actions: Mapping[str, ActionDefinition]
    queues: Mapping[str, Queue]
    events: Mapping[str, Event]
    workflow: WorkflowDefinition | None
    state_type: StateType
    input_signature: Signature | None = None
    """Of the hook that annotates its input: ``create_state``, else ``on_create``."""
    given_label: str | None = None
    """The app label that stands in for the module's own; for classes of tests."""

    @property
    def type_name(self) -> str:
        """``<app_label>.<ClassName>``, or ``Meta.name``."""
        return self.meta.name or f"{self.app_label}.{self.actor_class.__name__}"

    @property
    def app_label(self) -> str:
        """Asked for each time: a class may be made before Django knows its apps."""
        label = self.meta.app_label or self.given_label
        if label is None:
            module = self.actor_class.__module__
            label = _label_of(module) if apps.apps_ready else module.partition(".")[0]
        return label

    @property
    def input_type(self) -> ValueType:
        """What ``Cls.create(key, input)`` has to be given."""
        if self.input_signature is None:
            return ValueType()
        return next(iter(self.input_signature.types.values()))

    def action(self, name: str) -> ActionDefinition:
        return _found(self.actions, name, UnknownActionError, self.type_name, "action")

    def queue(self, name: str) -> Queue:
        return _found(self.queues, name, UnknownQueueError, self.type_name, "queue")

    def event(self, name: str) -> Event:
        return _found(self.events, name, UnknownEventError, self.type_name, "event")

    def verify(self) -> None:
        """``ImproperlyConfigured`` for the first declared type that names nothing, or nothing usable.

        Types may name what is defined further down, so they are not looked at when the class is
        made; a system check calls this for every actor.
        """
        for kind in self._value_types():
            _ = kind.adapter
        for action in self.actions.values():
            action.signature.verify()

    def _value_types(self) -> Iterator[ValueType]:
        yield self.input_type
        yield self.state_type.value_type
        for queue in self.queues.values():
            yield queue.body
            yield queue.response
        for event in self.events.values():
            yield event.payload


@cache
def _label_of(module: str) -> str:
    config = apps.get_containing_app_config(module)
    return module.partition(".")[0] if config is None else config.label


def _found(known: Mapping[str, T], name: str, error: type[RivetError], type_name: str, kind: str) -> T:
    if name in known:
        return known[name]
    near = get_close_matches(str(name), known, n=1)
    there = f"it declares {', '.join(known)}" if known else f"it declares no {kind}"
    raise error(f"{type_name} has no {kind} {name!r}; " + (f"did you mean {near[0]!r}?" if near else there))
