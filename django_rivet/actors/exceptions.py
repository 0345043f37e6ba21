"""What a caller of an actor can meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_rivet.engine.exceptions import RivetError


class InvalidInputError(RivetError, ValueError):
    """Arguments, a message, an input or a state do not fit their declaration.

    ``errors`` lists every fault as ``{"path": "body.id", "message": "Field required"}``.
    """

    code = "invalid_input"

    def __init__(self, message: str, errors: Sequence[dict[str, Any]] = ()) -> None:
        self.errors = list(errors)
        super().__init__(message)


class InvalidKeyError(RivetError, ValueError):
    """An actor's key breaks the rules: parts not empty, not ``.`` or ``..``, no ``/``, no control characters."""

    code = "invalid_key"


class UnknownActorTypeError(RivetError, LookupError):
    """No actor class of that type name is registered."""

    code = "unknown_actor_type"


class UnknownActionError(RivetError, LookupError):
    """The actor declares no such action."""

    code = "unknown_action"


class UnknownQueueError(RivetError, LookupError):
    """The actor declares no such queue."""

    code = "unknown_queue"


class UnknownEventError(RivetError, LookupError):
    """The actor declares no such event."""

    code = "unknown_event"


class ActorNotFoundError(RivetError, LookupError):
    """There is no actor of that type and key."""

    code = "actor_not_found"


class ActorExistsError(RivetError):
    """There is an actor of that type and key already."""

    code = "actor_exists"


class ActorBusyError(RivetError):
    """The actor's turn was not free within ``TURN_TIMEOUT``; nothing happened, try again."""

    code = "actor_busy"


class QueueFullError(RivetError):
    """The actor holds ``max_queue_size`` unhandled messages; this one was not stored."""

    code = "queue_full"


class MessageTooLargeError(RivetError, ValueError):
    """The message is larger than ``max_message_size`` bytes; it was not stored."""

    code = "message_too_large"


class IdempotencyConflictError(RivetError):
    """The idempotency key was used before with another body; nothing was stored."""

    code = "idempotency_conflict"


class WorkflowFinishedError(RivetError):
    """The workflow is completed or cancelled and takes no more messages; nothing was stored."""

    code = "workflow_finished"


class WorkflowInFlightError(RivetError):
    """A worker drives the actor at this moment; nothing happened, try again when it waits, or pause it first."""

    code = "workflow_in_flight"


class RollbackNotFailedError(RivetError):
    """The step has no rollback handler that is out of attempts, so there is nothing to decide; nothing happened."""

    code = "rollback_not_failed"


class NotReplayableError(RivetError):
    """The workflow is cancelled, or about to be, or its rollback is not over; nothing happened."""

    code = "not_replayable"


class UnknownEntryError(RivetError, ValueError):
    """The workflow's history has no step at that path; nothing happened."""

    code = "unknown_entry"


class CompensationOwedError(RivetError):
    """The actor owes compensations, of which nobody would know any more; nothing happened."""

    code = "compensation_owed"


class TransactionOpenError(RivetError):
    """What this call waits for could never become visible inside the open transaction."""

    code = "transaction_open"
