"""Durable actors and workflows for Django.

What a user writes in an app's ``actors.py`` comes from here; ``docs/`` begins with the quickstart.
"""

# Actors
from django_rivet.actors.actor import Actor
from django_rivet.actors.connection import Connection

# Their mailbox, broadcasts and actions
from django_rivet.actors.declarations import Event, Queue, action, workflow

# Errors of calling an actor
from django_rivet.actors.exceptions import (
    ActorBusyError,
    ActorExistsError,
    ActorNotFoundError,
    CompensationOwedError,
    IdempotencyConflictError,
    InvalidInputError,
    InvalidKeyError,
    MessageTooLargeError,
    NotReplayableError,
    QueueFullError,
    RollbackNotFailedError,
    TransactionOpenError,
    UnknownActionError,
    UnknownActorTypeError,
    UnknownEntryError,
    UnknownEventError,
    UnknownQueueError,
    WorkflowFinishedError,
    WorkflowInFlightError,
)

# Inside a workflow
from django_rivet.engine.current import current_step

# Errors that a step's body raises on purpose
from django_rivet.engine.exceptions import (
    CriticalError,
    EntryInProgressError,
    HistoryDivergedError,
    InvalidStepError,
    JoinError,
    MessageAlreadyCompletedError,
    MessageNotCompletedError,
    OutputNotSerializableError,
    QueueTimeoutError,
    RaceError,
    RetryAfter,
    RivetError,
    RollbackCheckpointError,
    RollbackError,
    RollbackHandlerError,
    RunTimeoutError,
    StepExhaustedError,
    StepInterruptedError,
    StepOnlyError,
    StepTimeoutError,
    UserError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowUsageError,
)
from django_rivet.engine.verbs.loop import Break, Continue

__all__ = [
    "Actor",
    "ActorBusyError",
    "ActorExistsError",
    "ActorNotFoundError",
    "Break",
    "CompensationOwedError",
    "Connection",
    "Continue",
    "CriticalError",
    "EntryInProgressError",
    "Event",
    "HistoryDivergedError",
    "IdempotencyConflictError",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidStepError",
    "JoinError",
    "MessageAlreadyCompletedError",
    "MessageNotCompletedError",
    "MessageTooLargeError",
    "NotReplayableError",
    "OutputNotSerializableError",
    "Queue",
    "QueueFullError",
    "QueueTimeoutError",
    "RaceError",
    "RetryAfter",
    "RivetError",
    "RollbackCheckpointError",
    "RollbackError",
    "RollbackHandlerError",
    "RollbackNotFailedError",
    "RunTimeoutError",
    "StepExhaustedError",
    "StepInterruptedError",
    "StepOnlyError",
    "StepTimeoutError",
    "TransactionOpenError",
    "UnknownActionError",
    "UnknownActorTypeError",
    "UnknownEntryError",
    "UnknownEventError",
    "UnknownQueueError",
    "UserError",
    "WorkflowCancelledError",
    "WorkflowFailedError",
    "WorkflowFinishedError",
    "WorkflowInFlightError",
    "WorkflowUsageError",
    "action",
    "current_step",
    "workflow",
]

__version__ = "0.1.0"
