"""What a client learns of a failure: ``{"code", "message", "metadata"}``, and never more than is meant for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions as rest
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import set_rollback

from django_rivet.actors.exceptions import (
    ActorBusyError,
    ActorExistsError,
    ActorNotFoundError,
    CompensationOwedError,
    IdempotencyConflictError,
    InvalidInputError,
    InvalidKeyError,
    MessageTooLargeError,
    QueueFullError,
    RollbackNotFailedError,
    UnknownActionError,
    UnknownActorTypeError,
    UnknownQueueError,
    WorkflowFinishedError,
    WorkflowInFlightError,
)
from django_rivet.api.values import jsonable
from django_rivet.engine.exceptions import RivetError, UserError

logger = logging.getLogger(__name__)


class InternalError(Exception):
    """User code failed with something that is nobody's business outside; it is logged as what caused it."""


class RequestTooLargeError(rest.APIException):
    status_code = 413
    default_detail = "The body is larger than the server takes."
    default_code = "request_too_large"


class LengthRequiredError(rest.APIException):
    """Without a length REST framework takes the body for an empty one, and the client's arguments would be lost."""

    status_code = 411
    default_detail = "Send the body with a Content-Length, not in chunks."
    default_code = "length_required"


class NothingToRecoverError(rest.APIException):
    status_code = 409
    default_detail = "The workflow has not failed: there is nothing to recover."
    default_code = "nothing_to_recover"


class NothingToResumeError(rest.APIException):
    status_code = 409
    default_detail = "The workflow is not paused: there is nothing to resume."
    default_code = "nothing_to_resume"


@contextmanager
def user_code() -> Iterator[None]:
    """Around actions and hooks: a ``UserError`` gets through, and that an actor was busy; nothing else.

    Else an error about another actor, which the client may know nothing of, would be told as one about this actor.
    """
    try:
        yield
    except (UserError, ActorBusyError):
        raise
    except OperationalError as error:
        if _is_locked(error):
            raise
        raise InternalError from error
    except Exception as error:
        raise InternalError from error


def answer_error(error: Exception, context: Mapping[str, Any]) -> Response:
    """REST framework's exception handler: no failure gets past it unnamed, and none says too much."""
    set_rollback()
    if isinstance(error, OperationalError) and _is_locked(error):
        error = ActorBusyError()
    if isinstance(error, Http404):
        error = rest.NotFound()
    elif isinstance(error, PermissionDenied):
        error = rest.PermissionDenied()
    elif isinstance(error, RequestDataTooBig):
        error = RequestTooLargeError()
    try:
        if isinstance(error, UserError):
            return _answer(_user_status(error), str(error.code), str(error), error.metadata)
        if isinstance(error, rest.APIException):
            return _answer_rest(error)
        if type(error) in _STATUS:
            assert isinstance(error, RivetError)
            return _answer_own(error)
    except (TypeError, ValueError) as unsayable:
        error = unsayable
    _log(error, context)
    return _answer(500, "internal_error", "Something went wrong on the server.", None)


# Below: how it is done ---------------------------------------------------------------------------

_STATUS: dict[type[Exception], int] = {
    InvalidInputError: 400,
    InvalidKeyError: 400,
    ActorNotFoundError: 404,
    UnknownActionError: 404,
    UnknownActorTypeError: 404,
    UnknownQueueError: 404,
    ActorBusyError: 409,
    ActorExistsError: 409,
    CompensationOwedError: 409,
    IdempotencyConflictError: 409,
    RollbackNotFailedError: 409,
    WorkflowFinishedError: 409,
    WorkflowInFlightError: 409,
    MessageTooLargeError: 413,
    QueueFullError: 429,
}


def _answer(status: int, code: str, message: str, metadata: Any, headers: dict[str, str] | None = None) -> Response:
    body = {"code": code, "message": message, "metadata": metadata if metadata is not None else {}}
    return Response(jsonable(body), status=status, headers=headers)


def _answer_own(error: RivetError) -> Response:
    message, metadata, headers = str(error), None, None
    if isinstance(error, InvalidInputError):
        metadata = {"errors": error.errors}
    elif isinstance(error, InvalidKeyError):
        metadata = {"errors": [{"path": "key", "message": message}]}
    elif isinstance(error, ActorBusyError):
        message, headers = "The actor was busy; nothing happened, try again.", {"Retry-After": "1"}
    return _answer(_STATUS[type(error)], error.code, message, metadata, headers)


def _answer_rest(error: rest.APIException) -> Response:
    if isinstance(error, rest.ValidationError):
        faults = list(_faults(error.detail, ""))
        message = "; ".join(f"{fault['path']}: {fault['message']}" for fault in faults)
        return _answer(error.status_code, InvalidInputError.code, message, {"errors": faults})
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    codes = error.get_codes()
    code = codes if isinstance(codes, str) else error.default_code
    message = str(error.detail if isinstance(error.detail, str) else error.default_detail)
    return _answer(error.status_code, code, message, None, headers)


def _faults(detail: Any, path: str) -> Iterator[dict[str, str]]:
    """Every fault of a serializer with its path, in the form of ``InvalidInputError.errors``."""
    if isinstance(detail, Mapping):
        for name, inside in detail.items():
            if isinstance(name, int):
                yield from _faults(inside, f"{path}[{name}]")
            elif name == api_settings.NON_FIELD_ERRORS_KEY:
                yield from _faults(inside, path)
            else:
                yield from _faults(inside, f"{path}.{name}" if path else str(name))
    elif isinstance(detail, list):
        for inside in detail:
            yield from _faults(inside, path)
    else:
        yield {"path": path or "$", "message": str(detail)}


def _user_status(error: UserError) -> int:
    # A status that says all is well, or none at all, would hide the error.
    fits = type(error.status) is int and 400 <= error.status <= 599
    return error.status if fits else 400


def _is_locked(error: OperationalError) -> bool:
    """SQLite has one writer; whoever was not let in has done nothing."""
    return "database is locked" in str(error)


def _log(error: Exception, context: Mapping[str, Any]) -> None:
    cause = error.__cause__ if isinstance(error, InternalError) else error
    request = context["request"]
    logger.error("%s %s failed", request.method, request.get_full_path(), exc_info=cause)
