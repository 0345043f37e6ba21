"""The state of an actor: from its declaration to an object, from the object to text and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.actors.validation import ValueType, faults_of, invalid
from django_rivet.engine import codec


class StateType:
    """What ``self.state`` is on the actors of one class.

    ``annotation`` is a pydantic model or a dataclass, or a dict type with the values it begins with.
    A ``closed`` model takes no names that it does not declare.
    """

    def __init__(self, annotation: Any, beginning: Mapping[str, Any] | None = None, closed: bool = False) -> None:
        self.annotation = annotation
        self.value_type = ValueType(annotation)
        self.beginning = beginning
        self._closed = closed

    def initial(self, actor_class: type[Any], input: Any = None, id: str = "", key: str = "") -> Any:
        """The state of a new actor: what its ``create_state`` makes of ``input``, else the defaults."""
        create_state = getattr(actor_class, "create_state", None)
        if create_state is None:
            return self._default()
        created = create_state(actor_class(id, key), input)
        if created is None:
            fault = {"path": "state", "message": f"{actor_class.__qualname__}.create_state returned None"}
            raise invalid([fault])
        return self.accept(created)

    def accept(self, value: Any) -> Any:
        """A state that code hands over, as the declared type: a dict becomes a model, say."""
        if self._closed and isinstance(value, Mapping):
            unknown = [name for name in value if name not in self.annotation.model_fields]
            if unknown:
                raise invalid([{"path": f"state.{name}", "message": _NO_ATTRIBUTE} for name in unknown])
        return self.value_type.validate(value, "state")

    def load(self, text: str) -> Any:
        """A stored state. ``InvalidInputError`` where the class has changed and it no longer fits.

        What the class does not declare any more is left out, like a removed field of a model; a new
        attribute needs a default.
        """
        return self.value_type.load(codec.decode(text), "state")

    def dump(self, state: Any) -> str:
        """The whole state as text, validated down to what code changed deep inside."""
        if dataclasses.is_dataclass(state):
            _refuse_strays(state)
        return self.value_type.text(self.value_type.revalidate(state, "state"), "state")

    def copy(self, state: Any) -> Any:
        """One that can be changed without changing ``state``."""
        return deepcopy(state)

    # Private -------------------------------------------------------------------------------------

    def _default(self) -> Any:
        if self.beginning is not None:
            return deepcopy(dict(self.beginning))
        try:
            return self.annotation()
        except ValidationError as error:
            raise invalid(faults_of(error, {}, "state")) from error
        except TypeError as error:
            raise InvalidInputError(f"state: {error}") from error


_NO_ATTRIBUTE = "is not declared; it would be lost"


def _refuse_strays(state: Any) -> None:
    """What was set on a dataclass beside its fields would be gone after this turn."""
    fields = {field.name for field in dataclasses.fields(state)}
    # A cached_property keeps its value beside the fields, under a name that the class knows.
    strays = [name for name in getattr(state, "__dict__", ()) if name not in fields and not hasattr(type(state), name)]
    if strays:
        raise invalid([{"path": f"state.{name}", "message": _NO_ATTRIBUTE} for name in strays])
