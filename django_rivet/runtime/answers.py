"""What a client is told, over HTTP or a WebSocket: a result in JSON's own types, or a failure.

Nothing that is not meant for it gets through: of all errors that user code raises only ``UserError`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import OperationalError

from django_rivet.actors.definition import ActionDefinition
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
    UnknownActionError,
    UnknownActorTypeError,
    UnknownEntryError,
    UnknownQueueError,
    WorkflowFinishedError,
    WorkflowInFlightError,
)
from django_rivet.actors.json_values import jsonable, result_value
from django_rivet.engine.exceptions import RivetError, StepTimeoutError, UserError
from django_rivet.runtime.handles import Handle
from django_rivet.runtime.limits import time_limit
from django_rivet.store.conflicts import is_locked
from django_rivet.store.transactions import engine_transaction

STATUS: Mapping[type[Exception], int] = {
    InvalidInputError: 400,
    InvalidKeyError: 400,
    ActorNotFoundError: 404,
    UnknownActionError: 404,
    UnknownActorTypeError: 404,
    UnknownEntryError: 404,
    UnknownQueueError: 404,
    ActorBusyError: 409,
    ActorExistsError: 409,
    CompensationOwedError: 409,
    IdempotencyConflictError: 409,
    NotReplayableError: 409,
    RollbackNotFailedError: 409,
    WorkflowFinishedError: 409,
    WorkflowInFlightError: 409,
    MessageTooLargeError: 413,
    QueueFullError: 429,
}
"""The HTTP status of each error of ours that is told to clients."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A word for programs, a sentence for people, and what goes with them; all of it is JSON."""

    status: int
    code: str
    message: str
    metadata: Any = field(default_factory=dict)
    retry_after: int | None = None
    """In seconds."""


INTERNAL_ERROR = Failure(500, "internal_error", "Something went wrong on the server.")


class InternalError(Exception):
    """User code failed with something that is nobody's business outside; it is logged as what caused it."""


class TooSlowError(Exception):
    """User code took longer than it was given; its transaction is rolled back."""


@contextmanager
def user_code() -> Iterator[None]:
    """Around actions and hooks: a ``UserError`` gets through, and that an actor was busy; nothing else.

    Else an error about another actor, which the client may know nothing of, would be told as one about this actor.
    """
    try:
        yield
    except (UserError, ActorBusyError, InternalError, TooSlowError):
        raise
    except OperationalError as error:
        if is_locked(error):
            raise
        raise InternalError from error
    except Exception as error:
        raise InternalError from error


@contextmanager
def bounded_user_code(limit: float, what: str) -> Iterator[None]:
    """The same, for at most ``limit`` seconds (0: no limit): then ``TooSlowError``.

    A thread that ``beside`` waits for is left behind then.
    """
    try:
        with time_limit(limit, what), user_code():
            yield
    except StepTimeoutError as error:
        raise TooSlowError(str(error)) from error


def output_of(
    handle: Handle, action: ActionDefinition, args: Sequence[Any], kwargs: Mapping[str, Any], limit: float = 0
) -> Any:
    """Run an action and give its result in JSON's own types. One whose result JSON cannot say leaves no trace.

    Raises what ``bounded_user_code`` does.
    """
    with user_code():
        if action.readonly:
            return _output(handle, action, args, kwargs, limit)
        # Turned into JSON before the commit: a client that is told of an error may try again.
        with engine_transaction(observed=False):
            return _output(handle, action, args, kwargs, limit)


def failure_of(error: BaseException) -> Failure | None:
    """What a client may learn of ``error``. None: that something went wrong, and the log learns what (``cause_of``)."""
    if isinstance(error, OperationalError) and is_locked(error):
        error = ActorBusyError()
    try:
        if isinstance(error, UserError):
            return _failure(_user_status(error), str(error.code), str(error), error.metadata)
        if type(error) in STATUS:
            assert isinstance(error, RivetError)
            return _own_failure(error)
    except (TypeError, ValueError) as unsayable:
        error.add_note(f"It could not be told to the client: {unsayable!r}")
    return None


def cause_of(error: BaseException) -> BaseException:
    """What to log."""
    return error.__cause__ or error if isinstance(error, InternalError) else error


# Below: how it is done ---------------------------------------------------------------------------


def _output(
    handle: Handle, action: ActionDefinition, args: Sequence[Any], kwargs: Mapping[str, Any], limit: float
) -> Any:
    with bounded_user_code(limit, f"the action {action.name!r} of {handle!r}"):
        return result_value(action.signature.result, handle.call(action.name, *args, **kwargs))


def _failure(status: int, code: str, message: str, metadata: Any = None, retry_after: int | None = None) -> Failure:
    return Failure(
        status, jsonable(code), jsonable(message), {} if metadata is None else jsonable(metadata), retry_after
    )


def _own_failure(error: RivetError) -> Failure:
    status, message = STATUS[type(error)], str(error)
    if isinstance(error, InvalidInputError):
        return _failure(status, error.code, message, {"errors": error.errors})
    if isinstance(error, InvalidKeyError):
        return _failure(status, error.code, message, {"errors": [{"path": "key", "message": message}]})
    if isinstance(error, ActorBusyError):
        return _failure(status, error.code, "The actor was busy; nothing happened, try again.", retry_after=1)
    return _failure(status, error.code, message)


def _user_status(error: UserError) -> int:
    # A status that says all is well, or none at all, would hide the error.
    fits = type(error.status) is int and 400 <= error.status <= 599
    return error.status if fits else 400
