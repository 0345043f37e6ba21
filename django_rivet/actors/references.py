"""Rollback handlers by name, as they are stored: looked up again when they run, maybe after a deploy."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from django_rivet.engine.exceptions import RollbackHandlerError


def reference_of(function: Any, actor: Any) -> str:
    """``self:<method>`` of this actor, or ``<module>:<function>``.

    ``RollbackHandlerError`` where the name would not lead back to the same function.
    """
    name = _method_name(function, actor)
    if name is not None:
        return f"self:{name}"
    if getattr(function, "__name__", "") == "<lambda>":
        raise _refusal(function, "is a lambda, which has no name to find it by; give it one with def")
    if inspect.ismethod(function) and function.__self__ is actor:
        raise _refusal(function, "is not what its class knows by that name")
    if inspect.ismethod(function):
        raise _refusal(function, "is a method of another object; give a method of this actor that calls it")
    if not inspect.isfunction(function):
        raise _refusal(function, "is no method of this actor and no function of a module")
    if "<locals>" in function.__qualname__:
        raise _refusal(function, "is defined inside another function; move it to the top of its module")
    if function.__module__ == "__main__":
        raise _refusal(function, "is defined in __main__, which is another module in a worker")
    if getattr(sys.modules.get(function.__module__), function.__qualname__, None) == function:
        return f"{function.__module__}:{function.__qualname__}"
    raise _refusal(function, "is not what its module knows by that name")


def resolve(reference: str, actor: Any, aliases: Mapping[str, str] | None = None) -> Callable[..., Any]:
    """The handler to call with ``(rollback, output)``; ``RollbackHandlerError`` where it is gone.

    ``aliases`` maps old references to new ones. For a method, ``<type name>:<method>`` is asked
    first, then ``self:<method>``, which holds for all actors.
    """
    reference = _renamed(reference, actor, aliases or {})
    place, _, name = reference.partition(":")
    found: Any = None
    reason: Exception | None = None
    if place == "self":
        found = getattr(actor, name, None)
    else:
        try:
            found = getattr(import_module(place), name, None)
        except (ImportError, ValueError) as error:
            reason = error
    if not callable(found):
        raise RollbackHandlerError(
            f"the rollback handler {reference!r} of {actor!r} is not found; restore it, "
            "or tell RIVET['HANDLER_ALIASES'] its new name"
        ) from reason
    return found  # type: ignore[no-any-return]


# Private -----------------------------------------------------------------------------------------


def _method_name(function: Any, actor: Any) -> str | None:
    """The name by which the actor's class gives this very function, however it was handed over."""
    name = getattr(function, "__name__", "")
    kind = inspect.getattr_static(type(actor), name, None)
    if not inspect.isfunction(kind) and not isinstance(kind, (staticmethod, classmethod)):
        return None
    # A bound method is a new object each time, equal to others of the same function and self.
    return name if function in (getattr(actor, name), getattr(type(actor), name)) else None


def _renamed(reference: str, actor: Any, aliases: Mapping[str, str]) -> str:
    seen = {reference}
    while True:
        place, _, name = reference.partition(":")
        own = f"{type(actor).definition.type_name}:{name}" if place == "self" else reference
        renamed = aliases.get(own, aliases.get(reference))
        if renamed is None:
            return reference
        reference = renamed if ":" in renamed else f"self:{renamed}"
        if reference in seen:
            raise RollbackHandlerError(f"RIVET['HANDLER_ALIASES'] leads from {reference!r} back to it")
        seen.add(reference)


def _refusal(function: Any, reason: str) -> RollbackHandlerError:
    name = getattr(function, "__qualname__", None) or repr(function)
    return RollbackHandlerError(f"the rollback handler {name} {reason}: handlers are stored by name")
