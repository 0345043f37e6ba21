"""Errors that another try may get past."""

from __future__ import annotations

from django.db import DatabaseError

from django_rivet.actors.exceptions import ActorBusyError

SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE = "40001", "40P01", "55P03"


def is_conflict(error: BaseException) -> bool:
    """A deadlock, a serialization failure or a lock that was not to be had; the transaction has to start over."""
    if isinstance(error, ActorBusyError):
        return True
    if not isinstance(error, DatabaseError):
        return False
    state = getattr(error.__cause__, "sqlstate", None)
    return state in {SERIALIZATION_FAILURE, DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE} or is_locked(error)


def is_locked(error: DatabaseError) -> bool:
    """SQLite has one writer; whoever was not let in has done nothing."""
    return "database is locked" in str(error)
