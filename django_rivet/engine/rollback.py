"""What a rollback handler is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rollback:
    """The first argument of a rollback handler; the second is the step's output."""

    args: Sequence[Any]
    """The step's positional arguments, as recorded."""
    kwargs: Mapping[str, Any]
    attempt: int
    """Of this handler, from 1."""
    idempotency_key: str
    """Differs from the step's; the same on every attempt."""
    cause: Exception
    """Why: a ``WorkflowFailedError`` whose ``error`` says what failed, or a ``WorkflowCancelledError``."""
    outcome: str
    """``completed``, or ``unknown`` where the step began and has no recorded output."""
