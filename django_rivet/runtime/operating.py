"""Carry out what an operator asks for, whoever asks: a handle, or the admin where the actor's class is gone."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

from django.db import OperationalError

from django_rivet.actors.exceptions import InvalidInputError
from django_rivet.runtime.bell import ring_on_commit
from django_rivet.store.conflicts import is_conflict
from django_rivet.store.database import connection
from django_rivet.store.lifecycle import Verdict
from django_rivet.store.transactions import engine_transaction

logger = logging.getLogger(__name__)

MAX_TRIES = 4
MAX_NOTE = 2000
MAX_PERSON = 255


def carry_out(
    act: Callable[[uuid.UUID], Verdict],
    actor_id: uuid.UUID,
    type_name: str,
    record: Callable[[], None] = lambda: None,
) -> bool:
    """Do it, and ``record`` it in the same transaction; False, and nothing, where the status does not allow it.

    A worker that was frozen in the middle of a commit may hold what is asked for: a conflict with it is met by another
    try, except inside a transaction of the caller's.
    """
    for tries_left in reversed(range(MAX_TRIES)):
        try:
            return _carry_out(act, actor_id, type_name, record)
        except OperationalError as error:
            if not tries_left or connection().in_atomic_block or not is_conflict(error):
                raise
            logger.info("a conflict with actor %s; it is tried again: %s", actor_id, error)
    raise AssertionError("unreachable")


def checked_note(text: str, name: str) -> str:
    """A reason or a note that people will read in the history; ``InvalidInputError`` where there is nothing to read."""
    if type(text) is not str or not text.strip():
        raise _refused(name, "must be a text that is not empty")
    return _checked(text.strip(), name, MAX_NOTE)


def checked_person(name: str) -> str:
    """Who decided; may be empty."""
    return _checked(name, "by", MAX_PERSON)


# Below: how it is done ---------------------------------------------------------------------------


def _checked(text: str, name: str, longest: int) -> str:
    if type(text) is not str or len(text) > longest:
        raise _refused(name, f"must be a text of {longest} characters at most")
    if "\0" in text or any(0xD800 <= ord(c) < 0xE000 for c in text):
        raise _refused(name, "must not hold NUL characters or lone surrogates")
    return text


def _refused(name: str, message: str) -> InvalidInputError:
    return InvalidInputError(f"{name} {message}", [{"path": name, "message": message}])


def _carry_out(
    act: Callable[[uuid.UUID], Verdict], actor_id: uuid.UUID, type_name: str, record: Callable[[], None]
) -> bool:
    with engine_transaction(observed=False):
        verdict = act(actor_id)
        if verdict.done:
            record()
        if verdict.is_due:
            ring_on_commit(actor_id, type_name)
    return verdict.done
