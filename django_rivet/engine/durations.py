"""Seconds and points in time as users give them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from django_rivet.engine.exceptions import InvalidStepError

Duration = int | float | timedelta


def seconds(value: object, what: str, *, minimum: float | None = None, maximum: float | None = None) -> float:
    """A duration in seconds, or ``InvalidStepError`` that names ``what`` it was for."""
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    else:
        raise InvalidStepError(f"{what} must be seconds (int or float) or a timedelta, not {value!r}")
    if not math.isfinite(number):
        raise InvalidStepError(f"{what} must be finite, not {value!r}")
    if minimum is not None and number < minimum:
        raise InvalidStepError(f"{what} must be at least {minimum:g} s, not {value!r}")
    if maximum is not None and number > maximum:
        raise InvalidStepError(f"{what} must be at most {maximum:g} s, not {value!r}")
    return number


def later(now: datetime, duration: float, what: str) -> datetime:
    """``now`` and ``duration`` seconds, or ``InvalidStepError`` where no calendar reaches that far."""
    if duration <= 0:
        return now
    try:
        return now + timedelta(seconds=duration)
    except OverflowError:
        raise InvalidStepError(f"{what} of {duration:g} s ends after the year 9999") from None


def point_in_time(value: object, what: str) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidStepError(f"{what} must be an aware datetime, not {value!r}")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidStepError(f"{what} lies outside the calendar in UTC: {value!r}") from None
