"""Destroy an actor: in one transaction that holds its turn, with its ``on_destroy`` hook."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from django.db import OperationalError

from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import ActorBusyError
from django_rivet.actors.turn import open_turns, turn_of, turn_open
from django_rivet.conf import get_settings
from django_rivet.engine.current import running_hook
from django_rivet.runtime.actions import finished
from django_rivet.runtime.publisher import publish
from django_rivet.runtime.turn import WritingTurn
from django_rivet.store import actors, turns
from django_rivet.store.conflicts import is_conflict
from django_rivet.store.transactions import engine_transaction
from django_rivet.store.turns import refuse_broken


def destroy_actor(
    actor_class: type[Actor[Any]] | None,
    actor_id: uuid.UUID,
    key: str,
    *,
    force: bool = False,
    record: Callable[[], None] = lambda: None,
    around_hook: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """What ``handle.destroy`` does, and ``record`` in the same transaction. No class, no hook: its code is gone.

    ``around_hook``: what to run the hook in, for who must tell its errors from the others.

    Raises ``ActorNotFoundError``, ``CompensationOwedError``, ``ActorBusyError`` where the turn was not free in time,
    and what the hook raises; nothing happened then.
    """
    with ExitStack() as stack:
        for each in open_turns():
            if isinstance(each, WritingTurn):
                stack.enter_context(each.undone_on_error())
        try:
            _destroy(actor_class, actor_id, key, force, record, around_hook)
        except OperationalError as error:
            if not is_conflict(error):
                raise
            raise ActorBusyError(f"actor {actor_id} was busy ({error}); nothing happened, try again") from error


# Below: how it is done ---------------------------------------------------------------------------


def _destroy(
    actor_class: type[Actor[Any]] | None,
    actor_id: uuid.UUID,
    key: str,
    force: bool,
    record: Callable[[], None],
    around_hook: Callable[[], AbstractContextManager[None]],
) -> None:
    own = turn_of(str(actor_id))
    with engine_transaction(observed=False):
        if not force:
            # Told before the hook is bothered; it is asked again when no worker can write any more.
            actors.refuse_owed(actor_id)
        turns.lock(actor_id, get_settings().TURN_TIMEOUT)
        if actor_class is not None:
            with around_hook():
                _tell_hook(actor_class(str(actor_id), key), own if isinstance(own, WritingTurn) else None)
        record()
        actors.delete(actor_id, force=force)
        publish(actor_id)
    if isinstance(own, WritingTurn):
        own.actor_was_destroyed()


def _tell_hook(actor: Actor[Any], own: WritingTurn | None) -> None:
    """``own``: the turn of the body that destroys its own actor."""
    on_destroy = getattr(actor, "on_destroy", None)
    if on_destroy is None:
        return
    turn = own or WritingTurn(actor)
    if inspect.iscoroutinefunction(on_destroy):
        turn.get_state()
    with turn_open(turn), running_hook():
        finished(on_destroy())
    refuse_broken()
    if own is None:
        # For what it broadcasts to those who listen now.
        turn.save()
