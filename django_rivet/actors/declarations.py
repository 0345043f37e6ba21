"""What stands in the body of an actor class: ``Queue``, ``Event``, ``@action``, ``@workflow``.

They only note what was declared. ``define`` reads them when the class is complete, so that all
mistakes of one class are told together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from django_rivet.actors.validation import ValueType

Permissions = Iterable[Any] | None
"""A list of permission classes of Django REST framework; None leaves it to the actor, then to ``RIVET``."""

P = ParamSpec("P")
R = TypeVar("R")
ActorT = TypeVar("ActorT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Queue:
    """A mailbox of the actor: ``orders = Queue(Order)``.

    A message that does not fit ``body_type`` is refused when it is sent. One whose handling died
    ``max_deliveries`` times is handed out no more.
    """

    def __init__(
        self,
        body_type: Any = Any,
        response_type: Any = Any,
        permission_classes: Permissions = None,
        max_deliveries: int = 5,
    ) -> None:
        self.name = ""
        self.body = ValueType(body_type)
        self.response = ValueType(response_type)
        self.permission_classes = _kept(permission_classes)
        self.max_deliveries = max_deliveries

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class Event:
    """Something that clients can subscribe to: ``order_failed = Event(dict)``.

    With ``stored=False`` an event reaches only who listens at that moment: a client that reconnects
    has missed it.
    """

    def __init__(self, payload_type: Any = Any, permission_classes: Permissions = None, stored: bool = True) -> None:
        self.name = ""
        self.payload = ValueType(payload_type)
        self.permission_classes = _kept(permission_classes)
        self.stored = stored

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Broadcaster, owner: type) -> BoundEvent: ...
    def __get__(self, instance: Broadcaster | None, owner: type) -> Self | BoundEvent:
        return self if instance is None else BoundEvent(self.name, instance)


class Broadcaster(Protocol):
    """An actor, as far as its events know it."""

    def broadcast(self, name: str, payload: Any = None) -> None: ...


@dataclass(frozen=True, slots=True)
class BoundEvent:
    """An event of one actor."""

    name: str
    actor: Broadcaster

    def broadcast(self, payload: Any = None) -> None:
        """Clients see it once the step, action or hook around it has committed; never otherwise."""
        self.actor.broadcast(self.name, payload)


@dataclass(frozen=True, slots=True)
class ActionOptions:
    """What ``@action`` was given."""

    readonly: bool = False
    permission_classes: Permissions = None


@overload
def action(function: FunctionT, /) -> FunctionT: ...
@overload
def action(*, readonly: bool = False, permission_classes: Permissions = None) -> Callable[[FunctionT], FunctionT]: ...
def action(function: Any = None, /, *, readonly: bool = False, permission_classes: Permissions = None) -> Any:
    """Lets callers run this method on a handle, in one transaction that holds the actor's turn.

    A read-only action sees what is committed, changes nothing and never waits. The method stays an
    ordinary one: inside the actor it is just called.
    """

    def mark(function: Any) -> Any:
        _need_function(function, "@action")
        function._rivet_action = ActionOptions(readonly, permission_classes)
        return function

    return mark if function is None else mark(function)


def action_options(function: Any) -> ActionOptions | None:
    """What ``function`` was declared with, if it is an action."""
    return getattr(function, "_rivet_action", None) if inspect.isfunction(function) else None


class Workflow(Generic[ActorT, P, R]):
    """The method that ``@workflow`` was put on; on an instance it is that method."""

    def __init__(self, function: Callable[Concatenate[ActorT, P], R]) -> None:
        self.function = function
        self.__wrapped__ = function
        self.__doc__ = function.__doc__

    def on_error(self, hook: FunctionT) -> FunctionT:
        """Registers a method that is told of each failure: ``@run.on_error``.

        Only the method is marked, so a subclass may put ``@Parent.run.on_error`` on one of its own
        and the parent keeps the hook it has.
        """
        _need_function(hook, "@on_error")
        hook._rivet_error_hook = True  # type: ignore[attr-defined]
        return hook

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self.function.__get__(instance, owner)


def workflow(function: Callable[Concatenate[ActorT, P], R]) -> Workflow[ActorT, P, R]:
    """Makes this method, ``def run(self, ctx)``, what the actor does from its creation to its end.

    It runs again from its start after every wait and every crash; only what stands in ``ctx`` calls
    is remembered.
    """
    _need_function(function, "@workflow")
    return Workflow(function)


def is_error_hook(function: Any) -> bool:
    return inspect.isfunction(function) and getattr(function, "_rivet_error_hook", False)


def _kept(permission_classes: Any) -> Any:
    """A list that its owner changes later changes nothing here."""
    return tuple(permission_classes) if isinstance(permission_classes, list) else permission_classes


def _need_function(function: Any, decorator: str) -> None:
    if not inspect.isfunction(function):
        raise TypeError(
            f"{decorator} goes on a plain method of an actor, and as the uppermost decorator; "
            f"this is a {type(function).__qualname__}"
        )
