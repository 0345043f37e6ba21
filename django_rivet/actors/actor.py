"""The class that users subclass."""

from __future__ import annotations

from typing import Any, ClassVar, Generic

from django.core.exceptions import ImproperlyConfigured
from typing_extensions import TypeVar

from django_rivet.actors.define import define
from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.directory import ActorDirectory, installed_directory
from django_rivet.actors.key import Key, key_parts, normalize_key
from django_rivet.actors.registry import registry
from django_rivet.actors.turn import Turn, turn_of
from django_rivet.engine.current import misused
from django_rivet.engine.exceptions import StepOnlyError

StateT = TypeVar("StateT", default=Any)


class Actor(Generic[StateT]):
    """A durable object: state, actions that callers run on it, and a workflow that lives through crashes.

    Subclass it in an app's ``actors.py``. ``class CheckoutActor(Actor[CheckoutState])`` is the form
    in which type checkers know ``self.state``.

    An instance is made for each drive or action and thrown away after it: what is set on ``self``
    is forgotten, what is in ``self.state`` stays.
    """

    definition: ClassVar[ActorDefinition]
    """What this class declares. Classes with mistakes never come to be."""

    def __init__(self, id: str, key: str) -> None:
        self.id = id
        self.key = key

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.definition = define(cls, Actor, registry.given_label)
        if not cls.definition.meta.abstract:
            registry.register(cls)

    @classmethod
    def create(cls, key: Key, input: Any = None) -> Any:
        """Makes the actor and gives its handle; ``ActorExistsError`` where there is one."""
        return cls._directory().create(cls, normalize_key(key), input)

    @classmethod
    def get(cls, key: Key) -> Any:
        """The handle of the actor; ``ActorNotFoundError`` where there is none."""
        return cls._directory().get(cls, normalize_key(key))

    @classmethod
    def get_or_create(cls, key: Key, input: Any = None) -> Any:
        """The handle of the actor, which is made if there is none; ``input`` counts only then."""
        return cls._directory().get_or_create(cls, normalize_key(key), input)

    @classmethod
    async def acreate(cls, key: Key, input: Any = None) -> Any:
        return await cls._directory().acreate(cls, normalize_key(key), input)

    @classmethod
    async def aget(cls, key: Key) -> Any:
        return await cls._directory().aget(cls, normalize_key(key))

    @classmethod
    async def aget_or_create(cls, key: Key, input: Any = None) -> Any:
        return await cls._directory().aget_or_create(cls, normalize_key(key), input)

    @property
    def key_parts(self) -> tuple[str, ...]:
        return key_parts(self.key)

    @property
    def state(self) -> StateT:
        """Change it in place or assign a new one: what is there when the turn ends is saved."""
        state: StateT = self._turn("state").get_state()
        return state

    @state.setter
    def state(self, value: StateT) -> None:
        self._turn("state").set_state(self.definition.state_type.accept(value))

    def broadcast(self, name: str, payload: Any = None) -> None:
        """Sends an event to who subscribes to it, when the code around has committed."""
        self._turn("broadcast").broadcast(name, payload)

    def __repr__(self) -> str:
        return f"<{self.definition.type_name} {self.key}>"

    # Private -------------------------------------------------------------------------------------

    def _turn(self, what: str) -> Turn:
        turn = turn_of(self.id)
        if turn is None:
            raise misused(
                StepOnlyError(
                    f"self.{what} of {self!r} was used outside a turn: it belongs in a step, an action, a hook or a "
                    "handler (in workflow code: ctx.step(name, self.method))"
                )
            )
        return turn

    @classmethod
    def _directory(cls) -> ActorDirectory:
        if cls is Actor or cls.definition.meta.abstract:
            raise ImproperlyConfigured(f"{cls.__qualname__} is abstract: there are only actors of its subclasses")
        return installed_directory()
