"""Run an action: here and now, in one transaction that holds the actor's turn."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.db import OperationalError, transaction

from django_rivet.actors.actor import Actor
from django_rivet.actors.connection import Connection
from django_rivet.actors.definition import ActionDefinition
from django_rivet.actors.exceptions import ActorBusyError
from django_rivet.actors.turn import open_turns, turn_of, turn_open
from django_rivet.conf import get_settings
from django_rivet.engine.current import refuse_in_workflow_code, running_hook
from django_rivet.runtime.turn import ReadingTurn, WritingTurn
from django_rivet.store.conflicts import is_conflict
from django_rivet.store.database import alias, connection
from django_rivet.store.transactions import engine_transaction
from django_rivet.store.turns import refuse_broken


def run_action(actor: Actor[Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What ``handle.call`` does."""
    refuse_in_workflow_code(f"the action {name!r}")
    action = type(actor).definition.action(name)
    arguments = action.signature.bind(args, kwargs)
    body = partial(_run, action, actor, arguments.args, arguments.kwargs)
    return _run_readonly(actor, name, body) if action.readonly else _run_in_turn(actor, body)


def run_before_connect(actor: Actor[Any], connection: Connection) -> None:
    """Call the hook ``on_before_connect``, if the actor has one. It sees the state as a read-only action does: a client
    that comes back after a loss must not wait for a turn. Raises what the hook raises.
    """
    hook = getattr(actor, "on_before_connect", None)
    if hook is None:
        return
    reading = ReadingTurn(actor, where="on_before_connect", may_broadcast=False)
    if inspect.iscoroutinefunction(hook):
        reading.get_state()
    with turn_open(reading), running_hook():
        finished(hook(connection))
    refuse_broken()
    reading.complain_if_changed()


def finished(outcome: Any) -> Any:
    """The value of what a plain or an ``async def`` method returned."""
    if not inspect.isawaitable(outcome):
        return outcome

    async def awaited() -> Any:
        return await outcome

    return async_to_sync(awaited)()


# Below: how it is done ---------------------------------------------------------------------------


def _run_readonly(actor: Actor[Any], name: str, body: Callable[[], Any]) -> Any:
    if turn_of(actor.id) is not None:
        return body()
    reading = ReadingTurn(actor, where=f"the read-only action {name!r}", may_broadcast=False)
    with turn_open(reading):
        result = body()
    reading.complain_if_changed()
    return result


def _run_in_turn(actor: Actor[Any], body: Callable[[], Any]) -> Any:
    with ExitStack() as stack:
        # An action that raises leaves no trace in any actor, also where another one called it and goes on.
        for each in open_turns():
            if isinstance(each, WritingTurn):
                stack.enter_context(each.undone_on_error())
        if isinstance(turn_of(actor.id), WritingTurn):
            with transaction.atomic(alias()):
                result = body()
                refuse_broken()
            return result
        patience_ends = time.monotonic() + get_settings().TURN_TIMEOUT
        while True:
            turn = WritingTurn(actor)
            try:
                return _run_in_new_turn(actor, turn, body)
            except OperationalError as error:
                if not is_conflict(error):
                    raise
                # In serializable transactions who has waited for a turn cannot have it: only a new one can.
                may_wait = not turn.is_held and not connection().in_atomic_block
                if may_wait and time.monotonic() < patience_ends:
                    continue
                raise ActorBusyError(f"{actor!r} was busy ({error}); nothing happened, try again") from error


def _run_in_new_turn(actor: Actor[Any], turn: WritingTurn, body: Callable[[], Any]) -> Any:
    with engine_transaction(observed=False) as begun:
        with turn_open(turn):
            turn.get_state()
            result = body()
        begun.body_has_ended()
        refuse_broken()
        turn.save()
    return result


def _run(action: ActionDefinition, actor: Actor[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if action.is_async:
        _ = actor.state  # a coroutine cannot ask the database for it when it first looks
    with running_hook():
        result = finished(action.function(actor, *args, **kwargs))
    refuse_broken()
    result = action.signature.validate_result(result)
    if result is actor.state:
        # What the caller gets must not be what the turn goes on to change.
        return type(actor).definition.state_type.copy(result)
    return result
