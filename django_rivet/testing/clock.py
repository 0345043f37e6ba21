"""The engine's clock: the database's, and what tests have added to it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django_rivet.store.database import clock, database_now


def advance(seconds: float | timedelta) -> None:
    """Move the engine's clock forward: what is due by then is due now. Real workers do not follow."""
    clock.offset += seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)


def now() -> datetime:
    """What the engine takes for the time."""
    return database_now()


def reset_clock() -> None:
    """Back to the database's own time."""
    clock.offset = 0.0
