"""Which names of an actor class are actions, queues, events or the workflow, after inheritance."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from django_rivet.actors.declarations import ActionOptions, Event, Queue, Workflow, action_options, is_error_hook


@dataclass
class Members:
    """The declarations of one class by name, and the faults of their names."""

    actions: dict[str, tuple[Callable[..., Any], ActionOptions]] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    events: dict[str, Event] = field(default_factory=dict)
    workflows: dict[str, Callable[..., Any]] = field(default_factory=dict)
    error_hook: Callable[..., Any] | None = None
    faults: list[str] = field(default_factory=list)


def members_of(cls: type[Any], root: type[Any]) -> Members:
    """What ``cls`` declares and inherits; its own stands before a parent's. ``root`` is ``Actor``.

    A plain method that overrides an action or the workflow stays one, with the options it had.
    ``reserve = None`` takes an inherited declaration away.
    """
    members = Members()
    bases = [base for base in cls.__mro__ if base not in root.__mro__]
    for name in dict.fromkeys(name for base in reversed(bases) for name in vars(base)):
        _sort_in(members, name, [vars(base)[name] for base in bases if name in vars(base)])
    declared = (*members.actions, *members.queues, *members.events)
    members.faults += [f"{name}: {reason}" for name in declared if (reason := _name_fault(name, root))]
    _find_error_hook(members, cls, bases)
    return members


# Private -----------------------------------------------------------------------------------------

_TAKEN = ("id", "key", "definition", "State", "Meta", "schedule", "cron")
_HOOKS = ("create_state", "on_create", "on_destroy", "on_before_connect")


def _sort_in(members: Members, name: str, chain: list[Any]) -> None:
    """``chain`` is what the name means in the class and in its parents, nearest first."""
    chain = list(takewhile(lambda value: value is not None, chain))
    kinds = [kind for value in chain if (kind := _kind(value))]
    if not kinds:
        return
    value, kind = chain[0], kinds[0]
    stays = inspect.isfunction(value) and kind in ("an action", "the workflow")
    if len(set(kinds)) > 1 or not (_kind(value) or stays):
        here = _kind(value) or f"a {type(value).__name__}"
        parents = next(each for each in kinds if each != here)
        members.faults.append(f"{name} is {here}, but {parents} in a parent: give one of them another name")
    elif isinstance(value, type):
        members.faults.append(f"{name} is the class {value.__name__} itself: write {value.__name__}()")
    elif isinstance(value, (Queue, Event)):
        if value.name != name:
            members.faults.append(f"{name} and {value.name} are one {kind.split()[-1]}: declare two")
        (members.queues if isinstance(value, Queue) else members.events)[name] = value  # type: ignore[assignment]
    elif kind == "the workflow":
        members.workflows[name] = value.function if isinstance(value, Workflow) else value
    else:
        options = next(found for each in chain if (found := action_options(each)))
        members.actions[name] = (value, options)


def _kind(value: Any) -> str | None:
    if isinstance(value, Queue) or value is Queue:
        return "a Queue"
    if isinstance(value, Event) or value is Event:
        return "an Event"
    if isinstance(value, Workflow):
        return "the workflow"
    return "an action" if action_options(value) else None


def _name_fault(name: str, root: type[Any]) -> str | None:
    if name.startswith("_"):
        return "the name begins with an underscore, but callers are to use it"
    if name in _HOOKS:
        return "the name is that of a hook, which is called by itself"
    if name in _TAKEN or hasattr(root, name):
        return "the name is taken by every actor"
    return None


def _find_error_hook(members: Members, cls: type[Any], bases: list[type[Any]]) -> None:
    for base in bases:
        names = [name for name, value in vars(base).items() if is_error_hook(value)]
        if len(names) > 1:
            members.faults.append(f"{' and '.join(names)} are both registered with on_error: one is enough")
        if names:
            # By name: a subclass that overrides the method is the one to be called.
            members.error_hook = getattr(cls, names[0])
            return
