"""The options of a step, checked when it is called."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from django_rivet.engine.durations import Duration, seconds
from django_rivet.engine.exceptions import InvalidStepError
from django_rivet.engine.retry import LONGEST_SECONDS

RetryIf = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """How a step is run; durations are seconds or ``timedelta``."""

    max_retries: int = 3
    """Attempts after the first."""
    retry_backoff_base: Duration = 0.1
    retry_backoff_max: Duration = 30
    retry_jitter: float = 0.1
    """Up to this part of the delay is added at random."""
    retry_if: RetryIf = None
    """Exception classes, or a predicate; other errors end the step at once."""
    timeout: Duration = 30
    """Of one attempt; 0: none."""
    retry_on_timeout: bool = False
    ephemeral: bool = False
    """Save the commit of a body that changed nothing in the database; it may run again after a crash."""
    atomic: bool = True
    at_most_once: bool = False
    """Never twice by itself; implies ``atomic=False, max_retries=0``."""
    rollback: Callable[..., Any] | None = None
    rollback_when: str = "completed"
    rollback_atomic: bool | None = None
    rollback_max_retries: int | None = None
    rollback_backoff_base: Duration | None = None
    rollback_backoff_max: Duration | None = None
    rollback_timeout: Duration | None = None

    @property
    def starts_on_record(self) -> bool:
        """Whether the start is committed before the body runs: a crash must not hide that it began."""
        return self.at_most_once or (
            not self.atomic and self.rollback is not None and self.rollback_when == "attempted"
        )


MOST_RETRIES = 1_000_000

OPTION_NAMES = tuple(f.name for f in fields(StepOptions))


def step_options(step: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> StepOptions:
    """Merge and check; raises ``InvalidStepError`` naming the step and the option."""
    for name in given:
        if name not in OPTION_NAMES:
            close = difflib.get_close_matches(name, OPTION_NAMES, 1)
            hint = f"did you mean {close[0]!r}?" if close else "arguments of the function by name go into kwargs={...}"
            raise InvalidStepError(f"step {step!r} has no option {name!r}; {hint}")
    merged = {**defaults, **given}
    if merged.get("at_most_once"):
        if given.get("atomic") or given.get("max_retries"):
            raise InvalidStepError(f"step {step!r}: at_most_once=True excludes atomic=True and max_retries above 0")
        merged |= {"atomic": False, "max_retries": 0}
    options = StepOptions(**merged)
    _check(step, options)
    return options


def _check(step: str, options: StepOptions) -> None:
    def refuse(name: str, rule: str) -> InvalidStepError:
        return InvalidStepError(f"step {step!r}: {name} must be {rule}, not {getattr(options, name)!r}")

    for name in ("retry_on_timeout", "ephemeral", "atomic", "at_most_once"):
        if type(getattr(options, name)) is not bool:
            raise refuse(name, "True or False")
    for name in ("max_retries", "rollback_max_retries"):
        count = getattr(options, name)
        is_left = count is None and name.startswith("rollback_")
        if not is_left and (type(count) is not int or not 0 <= count <= MOST_RETRIES):
            raise refuse(name, f"a whole number from 0 to {MOST_RETRIES}")
    for name in ("retry_backoff_base", "retry_backoff_max", "rollback_backoff_base", "rollback_backoff_max"):
        if getattr(options, name) is not None or not name.startswith("rollback_"):
            seconds(getattr(options, name), f"step {step!r}: {name}", minimum=0, maximum=LONGEST_SECONDS)
    for name in ("timeout", "rollback_timeout"):
        if getattr(options, name) is not None or not name.startswith("rollback_"):
            seconds(getattr(options, name), f"step {step!r}: {name}", maximum=LONGEST_SECONDS)
    seconds(options.retry_jitter, f"step {step!r}: retry_jitter", minimum=0, maximum=LONGEST_SECONDS)
    if options.rollback_when not in ("completed", "attempted"):
        raise refuse("rollback_when", "'completed' or 'attempted'")
    if options.rollback_atomic not in (None, True, False):
        raise refuse("rollback_atomic", "True, False or None")
    if not _is_retry_if(options.retry_if):
        raise refuse("retry_if", "an exception class, a tuple of them, or a predicate")


def _is_retry_if(value: object) -> bool:
    if isinstance(value, type):
        return issubclass(value, BaseException)
    if isinstance(value, tuple):
        return all(isinstance(each, type) and issubclass(each, BaseException) for each in value)
    return value is None or callable(value)
