"""The settings dict ``RIVET``, typed, in one place. All of it is optional."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_rivet.engine.exceptions import InvalidStepError
from django_rivet.engine.options import step_options


@dataclass(frozen=True)
class RivetSettings:
    """Durations are seconds, or a ``timedelta``."""

    LEASE_SECONDS: float = 10
    """How long a worker owns an actor without a sign of life; renewed by a heartbeat and by each commit."""
    SWEEP_SECONDS: float | None = None
    """How often ``rivet_worker`` looks for what is due; default 1, or 0.1 where no broker is configured."""
    SLICE_SECONDS: float = 5
    """After this long an actor goes behind the others."""
    TURN_TIMEOUT: float = 5
    """How long a call waits for the actor's turn before ``ActorBusyError``."""
    BRANCH_THREADS: int = 8
    """How many branches of joins may run at the same time in one process, each with a database connection."""
    STEP_DEFAULTS: Mapping[str, Any] = field(default_factory=dict)
    """Any option of ``ctx.step``."""
    MAX_OUTPUT_BYTES: int = 1024 * 1024
    """The largest value that a step may return, and the largest state."""
    MAX_TAKEOVERS: int = 5
    """Workers that may die in a row at one place before the step there ends as ``interrupted``."""
    DEFAULT_PERMISSION_CLASSES: tuple[str, ...] = ("rest_framework.permissions.IsAdminUser",)
    """For actors, actions and queues that name none."""
    CELERY_QUEUE: str | None = None
    """Where hints go; default: Celery's default queue."""
    EVENT_RETENTION: float = 3600
    """How long events are kept for clients that come back."""
    HANDLER_ALIASES: Mapping[str, str] = field(default_factory=dict)
    """Rollback handlers that a deploy has renamed: old reference to new one."""
    SWEEPER: bool = False
    """Run the sweeper inside a plain ``celery worker`` too."""


def get_settings() -> RivetSettings:
    """The current settings; ``ImproperlyConfigured`` lists every wrong key at once."""
    global _current
    if _current is None:
        _current = _load(getattr(django_settings, "RIVET", {}))
    return _current


def permission_classes(names: Any) -> list[type]:
    """Permission classes given as classes or dotted paths."""
    return [import_string(each) if isinstance(each, str) else each for each in names]


# Below: how it is done ---------------------------------------------------------------------------

_current: RivetSettings | None = None
_DURATIONS = ("LEASE_SECONDS", "SWEEP_SECONDS", "SLICE_SECONDS", "TURN_TIMEOUT", "EVENT_RETENTION")


def _load(given: Any) -> RivetSettings:
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"RIVET must be a dict, not {given!r}")
    known = [f.name for f in dataclasses.fields(RivetSettings)]
    faults = [_unknown(key, known) for key in given if key not in known]
    values = {key: _seconds(value) if key in _DURATIONS else value for key, value in given.items()}
    faults += [
        f"RIVET[{key!r}] must be seconds above 0, not {given[key]!r}"
        for key in _DURATIONS
        if key in given and not _is_positive(values[key], key)
    ]
    faults += [
        f"RIVET[{key!r}] must be a whole number from 1, not {given[key]!r}"
        for key in ("BRANCH_THREADS", "MAX_OUTPUT_BYTES", "MAX_TAKEOVERS")
        if key in given and (type(values[key]) is not int or values[key] < 1)
    ]
    try:
        step_options("by default", values.get("STEP_DEFAULTS", {}), {})
    except (TypeError, InvalidStepError) as error:
        faults.append(f"RIVET['STEP_DEFAULTS']: {error}")
    if faults:
        raise ImproperlyConfigured("; ".join(faults))
    return RivetSettings(**values)


def _unknown(key: Any, known: list[str]) -> str:
    close = difflib.get_close_matches(str(key), known, 1)
    return f"RIVET[{key!r}] is unknown" + (f"; did you mean {close[0]!r}?" if close else "")


def _is_positive(value: Any, key: str) -> bool:
    if value is None:
        return key == "SWEEP_SECONDS"
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _forget(*, setting: str, **kwargs: Any) -> None:
    global _current
    if setting == "RIVET":
        _current = None


setting_changed.connect(_forget)
