"""Actions and messages that come as frames: with the same rights, checks and errors as over HTTP.

Everything here is synchronous and asks the database; it is run in threads of its own (``threads``).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import ActorNotFoundError, UnknownActorTypeError
from django_rivet.actors.key import normalize_key
from django_rivet.actors.strict_json import refuse_unstorable
from django_rivet.actors.validation import invalid
from django_rivet.live.frames import MAX_NAME, Call
from django_rivet.live.visitors import Scope, Visitor
from django_rivet.runtime.answers import INTERNAL_ERROR, Failure, TooSlowError, cause_of, failure_of, output_of
from django_rivet.runtime.beside import LeftBehindError, beside
from django_rivet.runtime.handles import Handle

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Output:
    """What a call gives, in JSON's own types."""

    value: Any


def answer(scope: Scope, call: Call, actor_id: uuid.UUID, limit: float) -> Output | Failure:
    """Decide afresh whether the user may make the call, and make it. Never raises but for what ends the process.

    ``actor_id``: the connection's actor; another one that has its key now is not meant. After ``limit`` seconds of an
    action it is given up, and its transaction rolled back.
    """
    try:
        return Output(beside(partial(_done, scope, call, actor_id, limit), limit))
    except _RefusedCall as refused:
        return refused.failure
    except (TooSlowError, LeftBehindError):
        message = f"The action took longer than {limit:g} s and was given up; its transaction was rolled back."
        return Failure(503, "action_timeout", message)
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            logger.error("the %s %r of actor %s failed", call.kind, call.name, actor_id, exc_info=cause_of(error))
        return failure or INTERNAL_ERROR


# Below: how it is done ---------------------------------------------------------------------------


class _RefusedCall(Exception):  # noqa: N818 - it is what happened, and not wrong
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _done(scope: Scope, call: Call, actor_id: uuid.UUID, limit: float) -> Any:
    """Permission comes first: only who is let in learns whether there is such an action or queue, or what is wrong."""
    visitor = Visitor(scope, method="POST", data=call.body, **{call.kind: call.name})
    classes = visitor.classes(_own_classes(visitor.definition, call))
    if failure := visitor.refusal(classes):
        raise _RefusedCall(failure)
    definition = visitor.definition
    if definition is None:
        raise UnknownActorTypeError(f"There is no actor type {scope['url_route']['kwargs']['type']!r}.")
    find = partial(_found, visitor, classes, definition, actor_id)
    return _call_action(definition, call, find, limit) if call.kind == "action" else _send(definition, call, find)


def _own_classes(definition: ActorDefinition | None, call: Call) -> Any:
    if definition is None:
        return None
    declared = definition.actions.get(call.name) if call.kind == "action" else definition.queues.get(call.name)
    return declared.permission_classes if declared is not None else None


def _call_action(definition: ActorDefinition, call: Call, find: Callable[[], Handle], limit: float) -> Any:
    action = definition.action(call.name)
    refuse_unstorable(call.body)
    args, kwargs = call.body.get("args", []), call.body.get("kwargs", {})
    faults = _unknown_fields(call.body, "args", "kwargs") or [
        *_type_fault("args", args, list, "list of items"),
        *_type_fault("kwargs", kwargs, dict, "dictionary of items"),
    ]
    if faults:
        raise invalid(faults)
    # Faults of these arguments are the client's; of those inside the action it shall not hear.
    action.signature.bind(args, kwargs)
    return output_of(find(), action, args, kwargs, limit)


def _send(definition: ActorDefinition, call: Call, find: Callable[[], Handle]) -> Any:
    definition.queue(call.name)
    refuse_unstorable(call.body)
    faults = _unknown_fields(call.body, "body", "idempotency_key")
    if not faults and "body" not in call.body:
        faults = [_fault("body", "This field is required.")]
    if faults:
        raise invalid(faults)
    receipt = find().send(call.name, call.body["body"], idempotency_key=call.body.get("idempotency_key"))
    return {"id": receipt.id, "status": receipt.status}


def _found(visitor: Visitor, classes: Any, definition: ActorDefinition, actor_id: uuid.UUID) -> Handle:
    """The actor, or what would be told if there were none: also where the classes refuse this one."""
    key = normalize_key(visitor.key or ())
    try:
        handle: Handle | None = definition.actor_class.get(key)
    except ActorNotFoundError:
        handle = None
    if handle is not None and handle.id == str(actor_id):
        failure = visitor.refusal(classes, handle)
        if failure is INTERNAL_ERROR:
            raise _RefusedCall(failure)
        if failure is None:
            return handle
    raise ActorNotFoundError(f"There is no {definition.type_name} with the key {key!r}.")


def _unknown_fields(body: dict[str, Any], *known: str) -> list[dict[str, Any]]:
    return [_fault(name[:MAX_NAME], "Unknown field.") for name in body if name not in known]


def _type_fault(field: str, value: Any, kind: type, what: str) -> list[dict[str, Any]]:
    """In the words of REST framework, which checks the same over HTTP."""
    if isinstance(value, kind):
        return []
    if value is None:
        return [_fault(field, "This field may not be null.")]
    return [_fault(field, f'Expected a {what} but got type "{type(value).__name__}".')]


def _fault(path: str, message: str) -> dict[str, Any]:
    return {"path": path, "message": message}
