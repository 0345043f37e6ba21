"""How an actor class declares its state, and what is wrong with that."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, PydanticUserError

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.actors.state import StateType
from django_rivet.actors.state_model import NothingDeclared, PlainState, model_of
from django_rivet.actors.validation import ValueType


def state_of(cls: type[Any], root: type[Any], local_names: Mapping[str, Any]) -> tuple[StateType, list[str]]:
    """The state type of an actor class, and the faults in its declaration. ``root`` is ``Actor``.

    Its own ``State``, ``state = {...}`` or ``Actor[...]``; else that of the nearest base that
    declares one; else an empty one.
    """
    declared = _declared(cls, root)
    if declared:
        try:
            state_type = _state_type(declared, local_names)
        except _MistakeError as mistake:
            return _NOTHING, [str(mistake)]
        return state_type, list(_unfit_defaults(state_type, local_names))
    actors: list[type[Any]] = [base for base in cls.__mro__[1:] if issubclass(base, root) and base is not root]
    inherited = (base.definition.state_type for base in actors)
    return next((state_type for state_type in inherited if state_type is not _NOTHING), _NOTHING), []


def required_names(state_type: StateType) -> list[str]:
    """The attributes without a default, which ``create_state`` has to provide."""
    annotation = state_type.annotation
    if dataclasses.is_dataclass(annotation):
        return [field.name for field in dataclasses.fields(annotation) if field.init and _is_required(field)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [name for name, field in annotation.model_fields.items() if field.is_required()]
    return []


# Private -----------------------------------------------------------------------------------------

_NOTHING = StateType(NothingDeclared, closed=True)
_FORMS = "a class with annotated attributes, a pydantic model or a dataclass"


class _MistakeError(Exception):
    """The declaration is no state at all."""


def _declared(cls: type[Any], root: type[Any]) -> dict[str, Any]:
    """What the class itself, or a mixin that is no actor, says about its state; by where it says it."""
    declared: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is cls or not (issubclass(base, root) or base in root.__mro__):
            for name in ("State", "state"):
                if name in vars(base):
                    declared.setdefault(name, vars(base)[name])
    for base in vars(cls).get("__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, root):
            for argument in get_args(base):
                if not isinstance(argument, TypeVar):
                    declared["Actor[...]"] = argument
    return declared


def _state_type(declared: dict[str, Any], local_names: Mapping[str, Any]) -> StateType:
    beginning = declared.pop("state", None)
    kinds = list({id(kind): kind for kind in declared.values()}.values())
    if len(kinds) > 1:
        raise _MistakeError("State and Actor[...] name two classes: declare the state once")
    if beginning is not None and not isinstance(beginning, dict):
        raise _MistakeError(f"state must be a dict to begin with, not {beginning!r}; or declare class State")
    if not kinds or _is_dict(kinds[0]):
        return StateType(kinds[0] if kinds else dict, beginning=beginning or {})
    if beginning is not None:
        raise _MistakeError("state = {...} and a class of states: declare the state once")
    kind = kinds[0]
    if dataclasses.is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return StateType(kind, closed=isinstance(kind, type) and issubclass(kind, PlainState))
    if not isinstance(kind, type) or kind.__module__ == "builtins":
        raise _MistakeError(f"State must be {_FORMS}, not {kind!r}")
    if "__init__" in vars(kind):
        raise _MistakeError(f"{kind.__qualname__} has an __init__ of its own: make it a pydantic model or a dataclass")
    try:
        return StateType(model_of(kind, local_names), closed=True)
    except PydanticUserError as error:
        raise _MistakeError(f"{kind.__qualname__}: {error.message}") from error


def _is_dict(kind: Any) -> bool:
    return kind is Any or kind is dict or get_origin(kind) is dict


def _unfit_defaults(state_type: StateType, local_names: Mapping[str, Any]) -> Iterator[str]:
    """What new actors would begin with and could not store. Factories are not called at import."""
    for kind, default, where in _defaults(state_type, local_names):
        try:
            kind.text(kind.validate(default, where), where)
        except InvalidInputError as error:
            yield from (f"{fault['path']}: {fault['message']}" for fault in error.errors)


def _defaults(state_type: StateType, local_names: Mapping[str, Any]) -> Iterator[tuple[ValueType, Any, str]]:
    annotation = state_type.annotation
    if state_type.beginning is not None:
        yield state_type.value_type, state_type.beginning, "state"
    elif dataclasses.is_dataclass(annotation):
        try:
            hints = get_type_hints(annotation, localns=dict(local_names), include_extras=True)
        except NameError:
            return  # It names what is defined further down; the first dump looks at it.
        for field in dataclasses.fields(annotation):
            if field.default is not dataclasses.MISSING:
                yield ValueType(hints[field.name]), field.default, f"State.{field.name}"
    elif annotation.__pydantic_complete__:
        for name, field in annotation.model_fields.items():
            if not field.is_required() and field.default_factory is None:
                kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
                yield ValueType(kind), field.default, f"State.{name}"


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
