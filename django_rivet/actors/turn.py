"""The turn: the stretch of code in which an actor's state may be touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Protocol


class Turn(Protocol):
    """What a step, an action, a hook or a handler lends to its actor while it runs.

    The floor above opens one around each body and decides what becomes of the changes: they commit
    together with the body's record, or leave no trace.
    """

    @property
    def actor_id(self) -> str:
        """The instance that holds the turn."""

    def get_state(self) -> Any:
        """The state object; the same one on each call, since code changes it in place."""

    def set_state(self, value: Any) -> None:
        """Puts ``value``, of the declared state type, in place of the state.

        ``StepOnlyError`` in a body that only holds a snapshot.
        """

    def broadcast(self, event_name: str, payload: Any) -> None:
        """Hands out the payload when the body has committed.

        ``UnknownEventError`` and ``InvalidInputError`` at once.
        """


def turn_of(actor_id: str) -> Turn | None:
    """The open turn of that actor in this thread or task, if there is one."""
    return _open_turns.get().get(actor_id)


def open_turns() -> list[Turn]:
    """All turns that are open in this thread or task, the outermost first."""
    return list(_open_turns.get().values())


@contextmanager
def turn_open(turn: Turn) -> Iterator[None]:
    """Lends ``turn`` to its actor. Inside, a second turn of the same actor hides the first."""
    token = _open_turns.set({**_open_turns.get(), turn.actor_id: turn})
    try:
        yield
    finally:
        _open_turns.reset(token)


# A mapping that is replaced, never changed: a thread that copied the context keeps what it saw.
_open_turns: ContextVar[Mapping[str, Turn]] = ContextVar("rivet_open_turns", default=MappingProxyType({}))
