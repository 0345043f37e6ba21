"""What those look at who wait: whether a message was answered, and whether a workflow has ended."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django_rivet.models import Message, WorkflowRun
from django_rivet.store import statements as sql
from django_rivet.store.database import row
from django_rivet.store.lifecycle import STANDS_STILL

Status = WorkflowRun.Status


@dataclass(frozen=True, slots=True)
class MessageEnding:
    """What is committed about a message that somebody waits for."""

    is_handled: bool
    response: str | None
    """Codec text; None where the workflow took the message without completing it."""
    can_be_handled: bool
    """False where its workflow has ended, well or not, before that."""


@dataclass(frozen=True, slots=True)
class RunEnding:
    """What is committed about a workflow that somebody waits for."""

    status: str
    output: str | None
    error: str | None


def message_ending(message_id: int) -> MessageEnding | None:
    """None where the actor was destroyed, and its messages with it."""
    found = row(sql.MESSAGE_ENDING, [message_id])
    if found is None:
        return None
    status, response, run_status = found
    is_handled = status in (Message.Status.HANDLED, Message.Status.COMPLETED)
    return MessageEnding(is_handled, response, run_status not in STANDS_STILL)


def run_ending(actor_id: uuid.UUID) -> RunEnding | None:
    """None where the actor was destroyed."""
    found = row(sql.RUN_ENDING, [actor_id])
    return RunEnding(str(found[0]), found[1], found[2]) if found is not None else None
