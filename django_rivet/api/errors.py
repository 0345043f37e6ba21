"""What a client learns of a failure: ``{"code", "message", "metadata"}``, and never more than is meant for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from rest_framework import exceptions as rest
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import set_rollback

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.actors.json_values import jsonable
from django_rivet.runtime.answers import INTERNAL_ERROR, cause_of, failure_of

logger = logging.getLogger(__name__)


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


def answer_error(error: Exception, context: Mapping[str, Any]) -> Response:
    """REST framework's exception handler: no failure gets past it unnamed, and none says too much."""
    set_rollback()
    if isinstance(error, Http404):
        error = rest.NotFound()
    elif isinstance(error, PermissionDenied):
        error = rest.PermissionDenied()
    elif isinstance(error, RequestDataTooBig):
        error = RequestTooLargeError()
    try:
        if isinstance(error, rest.APIException):
            return _answer_rest(error)
    except (TypeError, ValueError) as unsayable:
        error = unsayable
    failure = failure_of(error)
    if failure is None:
        _log(error, context)
        failure = INTERNAL_ERROR
    headers = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
    return _answer(failure.status, failure.code, failure.message, failure.metadata, headers)


# Below: how it is done ---------------------------------------------------------------------------


def _answer(status: int, code: str, message: str, metadata: Any, headers: dict[str, str] | None = None) -> Response:
    body = {"code": code, "message": message, "metadata": metadata if metadata is not None else {}}
    return Response(jsonable(body), status=status, headers=headers)


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


def _log(error: Exception, context: Mapping[str, Any]) -> None:
    request = context["request"]
    logger.error("%s %s failed", request.method, request.get_full_path(), exc_info=cause_of(error))
