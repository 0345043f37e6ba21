"""Wait for what a worker will do: look, pause, look again. No lock is held, and no transaction is open meanwhile."""

from __future__ import annotations

import time
import uuid
from asyncio import sleep
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import ActorNotFoundError, TransactionOpenError
from django_rivet.actors.turn import open_turns
from django_rivet.engine import codec
from django_rivet.engine.current import in_workflow_code
from django_rivet.engine.exceptions import WorkflowCancelledError, WorkflowFailedError
from django_rivet.store import endings
from django_rivet.store.database import connection
from django_rivet.store.endings import RunEnding, Status
from django_rivet.store.lifecycle import STANDS_STILL
from django_rivet.store.run_errors import load_run_error

FIRST_PAUSE = 0.01
"""Seconds; each further one is longer by half …"""
LONGEST_PAUSE = 0.25
"""… up to this: so long may pass between a commit and the return of who waits for it."""

T = TypeVar("T")

meanwhile: ContextVar[Callable[[], object] | None] = ContextVar("django_rivet_meanwhile", default=None)
"""Called before each look; for tests, where nobody else does what is waited for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a message."""

    status: str
    """``completed``; ``failed``: its workflow ended before, or was destroyed; ``timed_out``."""
    response: Any = None
    """As the queue's ``response_type``; None unless ``completed``."""


def refuse_waiting(what: str) -> None:
    """``TransactionOpenError`` where what is waited for could never happen, or never become visible."""
    if in_workflow_code() or open_turns():
        raise TransactionOpenError(
            f"{what} waits for the commits of others, which workflow code, steps, actions, hooks and handlers cannot: "
            "what they wait for might be waiting for them"
        )
    conn = connection()
    is_open = any(not getattr(block, "_from_testcase", False) for block in conn.atomic_blocks)
    if is_open or (not conn.in_atomic_block and not conn.get_autocommit()):
        raise TransactionOpenError(
            f"{what} was called inside a transaction: no worker sees what it has sent, so the wait would be in vain; "
            "call it after the transaction.atomic() block, or in transaction.on_commit()"
        )


# What can be waited for --------------------------------------------------------------------------


def answer_to(definition: ActorDefinition, queue: str, message_id: int) -> Answer | None:
    """One look; None while the message may still be completed."""
    found = endings.message_ending(message_id)
    if found is None:
        return Answer("failed")
    if found.is_handled:
        if found.response is None:
            return Answer("completed")
        stored = codec.decode_record(found.response, f"the response to message {message_id}")
        return Answer("completed", definition.queue(queue).response.load(stored, "response"))
    return None if found.can_be_handled else Answer("failed")


def wait_for_answer(definition: ActorDefinition, queue: str, message_id: int, timeout: float | None) -> Answer:
    """Wait until the message is completed, or cannot be any more; ``timed_out`` after ``timeout`` seconds."""
    look = partial(answer_to, definition, queue, message_id)
    return wait(look, timeout) or Answer("timed_out")


def end_of(actor_id: uuid.UUID, who: str) -> RunEnding | None:
    """One look; None while the workflow goes on. ``ActorNotFoundError`` where it was destroyed."""
    found = endings.run_ending(actor_id)
    if found is None:
        raise ActorNotFoundError(f"{who} does not exist any more")
    return found if found.status in STANDS_STILL else None


def value_of(ending: RunEnding | None, who: str, timeout: float | None) -> Any:
    """What the workflow returned, or the error that says why it has not."""
    if ending is None:
        raise TimeoutError(f"the workflow of {who} has not ended after {timeout:g} s")
    if ending.status == Status.COMPLETED:
        return codec.decode_record(ending.output or "null", f"the output of {who}")
    if ending.status == Status.CANCELLED:
        raise WorkflowCancelledError(f"the workflow of {who} was cancelled")
    stored = load_run_error(ending.error)
    if stored is None:
        raise WorkflowFailedError(f"the rollback of {who}, which was cancelled, has failed")
    raise WorkflowFailedError(f"the workflow of {who} failed: {stored.error}", stored.error)


# How it is waited for ----------------------------------------------------------------------------


def wait(look: Callable[[], T | None], limit: float | None) -> T | None:
    """What ``look`` finds, None after ``limit`` seconds (None: never). There is always one look."""
    for pause in _pauses(limit):
        time.sleep(pause)
        if (found := _look(look)) is not None:
            return found
    return None


async def wait_async(look: Callable[[], T | None], limit: float | None) -> T | None:
    """``wait`` that holds no thread between two looks."""
    for pause in _pauses(limit):
        await sleep(pause)
        if (found := await sync_to_async(_look)(look)) is not None:
            return found
    return None


# Below: how it is done ---------------------------------------------------------------------------


def _look(look: Callable[[], T | None]) -> T | None:
    if (work := meanwhile.get()) is not None:
        work()
    return look()


def _pauses(limit: float | None) -> Iterator[float]:
    """How long to pause before each look: before the first not at all, and the last comes when the time is over."""
    ends = None if limit is None else time.monotonic() + limit
    yield 0.0
    pause = FIRST_PAUSE
    while ends is None or (left := ends - time.monotonic()) > 0:
        yield pause if ends is None else min(pause, left)
        pause = min(pause * 1.5, LONGEST_PAUSE)
