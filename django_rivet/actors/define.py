"""Reads an actor class into its definition, when the class is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel

from django_rivet.actors.annotations import names_around_a_class
from django_rivet.actors.definition import ActionDefinition, ActorDefinition, WorkflowDefinition
from django_rivet.actors.members import Members, members_of
from django_rivet.actors.meta import ActorMeta, read_count, read_meta, read_permission_classes
from django_rivet.actors.signature import Signature
from django_rivet.actors.state import StateType
from django_rivet.actors.state_class import required_names, state_of


def define(cls: type[Any], root: type[Any], given_label: str | None = None) -> ActorDefinition:
    """The definition of an actor class. ``root`` is ``Actor``.

    ``ImproperlyConfigured`` names the class and every fault of its declaration: one start of the
    server is enough to find them all.
    """
    local_names = names_around_a_class(cls.__qualname__)
    local_names |= {name: value for name, value in vars(cls).items() if isinstance(value, type)}
    parent: ActorDefinition | None = getattr(cls, "definition", None)
    meta, faults = read_meta(vars(cls).get("Meta"), parent.meta if parent else ActorMeta())
    state_type, state_faults = state_of(cls, root, local_names)
    members = members_of(cls, root)
    faults += state_faults + members.faults
    faults += _option_faults(members)
    faults += _workflow_faults(members)
    faults += _method_faults(cls, members)
    if not meta.abstract:
        faults += _missing_state_faults(cls, state_type)
    if faults:
        lines = "".join(f"\n  - {fault}" for fault in faults)
        raise ImproperlyConfigured(f"{cls.__module__}.{cls.__qualname__} is not declared correctly:{lines}")
    _settle_state(cls, state_type)
    return ActorDefinition(
        actor_class=cls,
        meta=meta,
        actions=MappingProxyType(_actions(members, local_names)),
        queues=MappingProxyType(members.queues),
        events=MappingProxyType(members.events),
        workflow=_workflow(members),
        state_type=state_type,
        input_signature=_input_signature(cls, local_names),
        given_label=given_label,
    )


# What is wrong -----------------------------------------------------------------------------------

_METHODS = {
    "create_state": "self, input",
    "on_create": "self, input",
    "on_destroy": "self",
    "on_before_connect": "self, connection",
}


def _option_faults(members: Members) -> Iterator[str]:
    options: list[tuple[str, Any]] = [(name, options) for name, (_, options) in members.actions.items()]
    for name, declared in (*options, *members.queues.items(), *members.events.items()):
        try:
            read_permission_classes(declared.permission_classes)
        except ValueError as error:
            yield f"{name}: permission_classes {error}"
    for name, queue in members.queues.items():
        try:
            read_count(queue.max_deliveries)
        except ValueError as error:
            yield f"{name}: max_deliveries {error}"


def _workflow_faults(members: Members) -> Iterator[str]:
    if len(members.workflows) > 1:
        names = " and ".join(members.workflows)
        yield f"{names} are both workflows: an actor has one (set the inherited one to None, or override it by name)"
    for name, function in members.workflows.items():
        if inspect.iscoroutinefunction(function) or _yields(function):
            yield f"{name}: the workflow is a plain def that returns; step bodies may be async"
        yield from _parameter_faults(name, function, "self, ctx")


def _method_faults(cls: type[Any], members: Members) -> Iterator[str]:
    for name, (function, _) in members.actions.items():
        if _yields(function):
            yield f"{name}: an action returns its result, it cannot yield"
        if not inspect.signature(function).parameters:
            yield f"{name}: takes no self"
    for name, parameters in _METHODS.items():
        method: Any = getattr(cls, name, None)
        if method is not None:
            yield from _parameter_faults(name, method, parameters)
            if name == "create_state" and inspect.iscoroutinefunction(method):
                yield "create_state: must be a plain def; on_create may be async"
    hook = members.error_hook
    if hook is not None:
        yield from _parameter_faults(hook.__name__, hook, "self, event")


def _missing_state_faults(cls: type[Any], state_type: StateType) -> Iterator[str]:
    if getattr(cls, "create_state", None) is None:
        for name in required_names(state_type):
            yield f"State.{name} has no default: give it one, or define create_state(self, input)"


def _parameter_faults(name: str, function: Any, parameters: str) -> Iterator[str]:
    if not inspect.isfunction(function):
        yield f"{name}: must be a plain method, def {name}({parameters})"
        return
    try:
        inspect.signature(function).bind(*parameters.split(", "))
    except TypeError:
        yield f"{name}: is called as {name}({parameters}), but takes {inspect.signature(function)}"


def _yields(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


# What is declared --------------------------------------------------------------------------------


def _settle_state(cls: type[Any], state_type: StateType) -> None:
    """So that ``Cls.State(...)`` makes a state, and ``self.state`` is the property of every actor."""
    if (
        "State" in vars(cls)
        and isinstance(state_type.annotation, type)
        and issubclass(state_type.annotation, BaseModel)
    ):
        cls.State = state_type.annotation
    if "state" in vars(cls):
        del cls.state


def _actions(members: Members, local_names: Mapping[str, Any]) -> dict[str, ActionDefinition]:
    return {
        name: ActionDefinition(
            name=name,
            function=function,
            signature=Signature(function, local_names),
            readonly=options.readonly,
            permission_classes=read_permission_classes(options.permission_classes),
        )
        for name, (function, options) in members.actions.items()
    }


def _workflow(members: Members) -> WorkflowDefinition | None:
    for name, function in members.workflows.items():
        return WorkflowDefinition(name, function, members.error_hook)
    return None


def _input_signature(cls: type[Any], local_names: Mapping[str, Any]) -> Signature | None:
    for name in ("create_state", "on_create"):
        function = getattr(cls, name, None)
        if function is not None:
            parameter = list(inspect.signature(function).parameters.values())[1]
            if parameter.annotation is not inspect.Parameter.empty:
                return Signature(function, local_names)
    return None
