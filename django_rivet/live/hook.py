"""The actor's own word about a connection, before it is accepted."""

from __future__ import annotations

import logging
from functools import partial

from django.http import QueryDict

from django_rivet.actors.connection import Connection
from django_rivet.live.access import Admission, RefusedError
from django_rivet.live.threads import in_thread
from django_rivet.live.visitors import Scope
from django_rivet.runtime.actions import run_before_connect
from django_rivet.runtime.answers import INTERNAL_ERROR, Failure, TooSlowError, bounded_user_code, cause_of, failure_of
from django_rivet.runtime.beside import LeftBehindError, beside

logger = logging.getLogger(__name__)

TOO_SLOW = Failure(503, "connect_timeout", "The actor took too long to let you in; try again.")


async def ask_actor(scope: Scope, admission: Admission, limit: float) -> None:
    """Call ``on_before_connect``; ``RefusedError`` where it raises, or takes longer than ``limit`` seconds."""
    if hasattr(admission.definition.actor_class, "on_before_connect"):
        failure = await in_thread(partial(_failure, scope, admission, limit))
        if failure is not None:
            raise RefusedError(4000 + failure.status, failure.message, failure)


# Below: how it is done ---------------------------------------------------------------------------


def _failure(scope: Scope, admission: Admission, limit: float) -> Failure | None:
    try:
        beside(partial(_call_hook, scope, admission, limit), limit)
    except (TooSlowError, LeftBehindError):
        return TOO_SLOW
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            logger.error("on_before_connect of actor %s failed", admission.actor_id, exc_info=cause_of(error))
        return failure or INTERNAL_ERROR
    return None


def _call_hook(scope: Scope, admission: Admission, limit: float) -> None:
    actor = admission.definition.actor_class(str(admission.actor_id), admission.key)
    with bounded_user_code(limit, f"on_before_connect of {actor!r}"):
        run_before_connect(actor, _connection(scope, admission))


def _connection(scope: Scope, admission: Admission) -> Connection:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        text, known = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[text] = f"{headers[text]},{known}" if text in headers else known
    return Connection(admission.user, QueryDict(scope["query_string"]).dict(), headers)
