"""When the next attempt is due."""

from __future__ import annotations

from django_rivet.engine.exceptions import RetryAfter

LONGEST_SECONDS = 36_525 * 86_400.0
"""A hundred years: no delay is longer."""


def asked_delay(error: BaseException) -> float | None:
    """The delay that a body asked for by ``RetryAfter``; None where it did not, or not for one that makes sense."""
    if isinstance(error, RetryAfter) and 0 <= error.seconds <= LONGEST_SECONDS:
        return error.seconds
    return None


def backoff(attempt: int, base: float, maximum: float, jitter: float, chance: float) -> float:
    """Seconds to wait after failed attempt ``attempt`` (from 1): ``min(maximum, base * 2**attempt)`` and a bit.

    ``chance`` from 0 to 1 picks the bit, up to ``jitter`` of the delay; never less than the formula.
    """
    # 2.0**1100 overflows; past 2**62 any base that matters has reached its maximum.
    delay = min(maximum, base * 2.0 ** min(attempt, 62))
    return delay * (1.0 + jitter * chance)


def delay_after(
    error: BaseException, attempt: int, *, base: float, maximum: float, jitter: float, chance: float
) -> float:
    """Seconds until the attempt after one that failed with ``error``: what it asked for, else the backoff."""
    asked = asked_delay(error)
    return asked if asked is not None else backoff(attempt, base, maximum, jitter, chance)
