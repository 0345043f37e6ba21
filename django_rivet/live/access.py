"""Who is let in, and to which events.

The permission classes are an event's own, else the actor's, else ``DEFAULT_PERMISSION_CLASSES``; of the staff the
latter two also need ``view_actor``. Everything here is synchronous and asks the database: call it by
``database_sync_to_async``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import ActorNotFoundError
from django_rivet.live.stored_events import last_seqs
from django_rivet.live.visitors import Scope, Visitor
from django_rivet.runtime.answers import Failure
from django_rivet.runtime.handles import Handle

ANONYMOUS = 4401
FORBIDDEN = 4403
NOT_FOUND = 4404


class RefusedError(Exception):
    """Carries the code that the connection is closed with; an HTTP status, and 4000."""

    def __init__(self, code: int, reason: str, failure: Failure | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.failure = failure
        """What a client is told that can be told more than a code."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What somebody may listen to, at this moment."""

    actor_id: uuid.UUID
    seq: int
    """The number of the actor's last event."""
    definition: ActorDefinition
    events: frozenset[str]
    """Those that this client may see."""
    key: str
    user: Any


def admit(scope: Scope) -> Admission:
    """Decide afresh, from what the database says now, or raise ``RefusedError``.

    Whether an actor exists, or a type, is told only to who might see it.
    """
    visitor = Visitor(scope)
    listener = _Listener(visitor)
    listener.require(listener.may_see_actor() or listener.visible_events())
    definition = visitor.definition
    if definition is None or visitor.key is None:
        raise _not_found()
    try:
        handle: Handle = definition.actor_class.get(visitor.key)
    except ActorNotFoundError:
        raise _not_found() from None
    listener.found(handle)
    events = listener.visible_events()
    listener.require(listener.may_see_actor() or events)
    actor_id = uuid.UUID(handle.id)
    seq = last_seqs([actor_id]).get(actor_id)
    if seq is None:
        raise _not_found()
    return Admission(actor_id, seq, definition, events, handle.key, visitor.user)


# Below: how it is done ---------------------------------------------------------------------------


class _Listener:
    """A visitor who wants to see one actor, or some of its events."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._handle: Handle | None = None
        self._code = FORBIDDEN if visitor.user.is_authenticated else ANONYMOUS

    def found(self, handle: Handle) -> None:
        """From now on the classes are asked about this very actor too."""
        self._handle = handle

    def require(self, allowed: object) -> None:
        if not allowed:
            raise _not_found() if self._code == NOT_FOUND else RefusedError(self._code, "you may not see this actor")

    def visible_events(self) -> frozenset[str]:
        declared = self._visitor.definition.events if self._visitor.definition is not None else {}
        if not declared:
            return frozenset()
        by_default = self.may_see_actor()
        return frozenset(
            name
            for name, event in declared.items()
            if (by_default if event.permission_classes is None else self._passes(event.permission_classes, event=name))
        )

    def may_see_actor(self) -> bool:
        return self._visitor.may_look and self._passes(self._visitor.classes())

    def _passes(self, classes: Any, **names: str) -> bool:
        failure = self._visitor.refusal(classes, None, **names)
        if failure is None and self._handle is not None:
            failure = self._visitor.refusal(classes, self._handle, **names)
        if failure is not None and failure.status == 404:
            self._code = NOT_FOUND
        return failure is None


def _not_found() -> RefusedError:
    return RefusedError(NOT_FOUND, "there is no such actor")
