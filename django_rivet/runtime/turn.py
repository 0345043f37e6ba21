"""The turn of an actor: what ``self.state`` and ``self.broadcast`` mean inside a body, an action or a hook."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django_rivet.actors.actor import Actor
from django_rivet.actors.definition import ActorDefinition
from django_rivet.conf import get_settings
from django_rivet.engine.exceptions import OutputNotSerializableError, StepOnlyError
from django_rivet.runtime.publisher import publish
from django_rivet.store import turns

logger = logging.getLogger(__name__)


class WritingTurn:
    """Holds the actor's row from the first look at its state until the transaction ends."""

    def __init__(self, actor: Actor[Any], broadcasts: Sequence[tuple[str, str]] = ()) -> None:
        self.actor_id = actor.id
        self._definition: ActorDefinition = type(actor).definition
        self._loaded: str | None = None
        self._state: Any = None
        self._events = list(broadcasts)
        self._was_destroyed = False

    @property
    def is_held(self) -> bool:
        """Whether the state was looked at: from then on nobody else has the turn."""
        return self._loaded is not None

    def get_state(self) -> Any:
        self._load()
        return self._state

    def set_state(self, value: Any) -> None:
        self._load()
        self._state = value

    def broadcast(self, event_name: str, payload: Any) -> None:
        self._events.append((event_name, encoded_payload(self._definition, event_name, payload)))

    def save(self) -> None:
        """Write what the turn changed, in the open transaction, whose commit tells of the new events.

        ``InvalidInputError`` where the state does not fit its declaration any more.
        """
        if self.actor_is_gone():
            return
        text = self._changed_state()
        stored = [(n, p) for n, p in self._events if self._definition.events[n].stored]
        passing = [(n, p) for n, p in self._events if not self._definition.events[n].stored]
        actor_id = uuid.UUID(self.actor_id)
        if text is not None or stored:
            turns.save(actor_id, text, stored, self._loaded)
        if text is not None:
            self._loaded = text
        if stored or passing:
            publish(actor_id, passing, look=bool(stored))
        self._events.clear()

    def actor_was_destroyed(self) -> None:
        """Told by who did that inside this turn."""
        self._was_destroyed = True

    def actor_is_gone(self) -> bool:
        """Whether it was destroyed in this turn, and no savepoint has taken that back."""
        return self._was_destroyed and not turns.exists(uuid.UUID(self.actor_id))

    def check(self) -> None:
        """Raise now what ``save`` would."""
        self._changed_state()

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Put state and events back where the block raises: a savepoint for what is in memory."""
        text = self._definition.state_type.dump(self._state) if self._loaded is not None else None
        events = list(self._events)
        try:
            yield
        except BaseException:
            self._events = events
            if text is None:
                self._loaded = None
            else:
                self._state = self._definition.state_type.load(text)
            raise

    # Below: how it is done -------------------------------------------------------------------

    def _load(self) -> None:
        if self._loaded is None:
            self._loaded = turns.lock(uuid.UUID(self.actor_id), get_settings().TURN_TIMEOUT)
            self._state = self._definition.state_type.load(self._loaded)

    def _changed_state(self) -> str | None:
        if self._loaded is None:
            return None
        text = self._definition.state_type.dump(self._state)
        if text == self._loaded:
            return None
        refuse_large(text, f"the state of {self._definition.type_name}")
        return text


class ReadingTurn:
    """A snapshot of the state. Broadcasts, where they are allowed at all, wait for the record."""

    def __init__(self, actor: Actor[Any], *, where: str, may_broadcast: bool) -> None:
        self.actor_id = actor.id
        self._definition: ActorDefinition = type(actor).definition
        self._where = where
        self._may_broadcast = may_broadcast
        self._loaded: str | None = None
        self._state: Any = None
        self.events: list[tuple[str, str]] = []

    def get_state(self) -> Any:
        if self._loaded is None:
            self._loaded = turns.read(uuid.UUID(self.actor_id))
            self._state = self._definition.state_type.load(self._loaded)
        return self._state

    def set_state(self, value: Any) -> None:
        raise StepOnlyError(
            f"{self._where} has a read-only view of the state; change it in an atomic step or an action"
        )

    def broadcast(self, event_name: str, payload: Any) -> None:
        if not self._may_broadcast:
            raise StepOnlyError(f"{self._where} is read-only and cannot broadcast")
        # As it is now: whatever becomes of the payload object later, it fits and can be stored.
        self.events.append((event_name, encoded_payload(self._definition, event_name, payload)))

    def complain_if_changed(self) -> None:
        """A change inside a nested value cannot be refused at once."""
        if self._loaded is None:
            return
        try:
            changed = self._definition.state_type.dump(self._state) != self._loaded
        except ValueError:
            changed = True
        if changed:
            logger.error("%s changed the state of %s; the change was not kept", self._where, self._definition.type_name)


def encoded_payload(definition: ActorDefinition, event_name: str, payload: Any) -> str:
    """A payload as it is stored; raises ``UnknownEventError``, ``InvalidInputError``, or where it is too large
    ``OutputNotSerializableError``.
    """
    event = definition.event(event_name)
    text = event.payload.text(event.payload.validate(payload, event_name), event_name)
    refuse_large(text, f"the payload of event {event_name!r} of {definition.type_name}")
    return text


def refuse_large(text: str, what: str) -> None:
    """``OutputNotSerializableError`` where it has more than ``MAX_OUTPUT_BYTES``."""
    size, limit = len(text.encode()), get_settings().MAX_OUTPUT_BYTES
    if size > limit:
        raise OutputNotSerializableError(f"{what} has {size} bytes; MAX_OUTPUT_BYTES allows {limit}")
