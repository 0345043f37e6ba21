"""``class Meta`` of an actor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from django_rivet.engine.durations import seconds
from django_rivet.engine.exceptions import InvalidStepError
from django_rivet.engine.retry import LONGEST_SECONDS


@dataclass(frozen=True, slots=True)
class ActorMeta:
    """The options of one actor class; durations in seconds, None where there is no limit."""

    name: str | None = None
    """The type name in full, in place of ``<app_label>.<ClassName>``."""
    app_label: str | None = None
    abstract: bool = False
    """Only a base for others: not registered, has no instances."""
    celery_queue: str | None = None
    permission_classes: tuple[Any, ...] | None = None
    max_queue_size: int = 1000
    """Unhandled messages that one actor may hold."""
    max_message_size: int = 64 * 1024
    """Bytes of a message's text."""
    run_timeout: float | None = None
    """How long a workflow may take from its first drive on, waits included."""
    max_running: int | None = None
    """How many actors of this type may be driven at the same time, over all workers."""
    retention: float | None = None


def read_meta(declared: Any, inherited: ActorMeta) -> tuple[ActorMeta, list[str]]:
    """The options of a class and the faults in them.

    Options that ``declared`` does not mention are the parent's, except its name and that it is abstract.
    """
    base = replace(inherited, name=None, abstract=False)
    if declared is None:
        return base, []
    if not isinstance(declared, type):
        return base, ["Meta must be a class: class Meta: ..."]
    options, faults = {}, []
    for name, value in _options_in(declared):
        read = _READERS.get(name)
        if read is None:
            near = get_close_matches(name, _READERS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(_READERS))}"
            faults.append(f"Meta.{name} is no option; {hint}")
            continue
        try:
            options[name] = read(value)
        except ValueError as error:
            faults.append(f"Meta.{name} {error}")
    return replace(base, **options), faults


def read_permission_classes(value: Any) -> tuple[Any, ...] | None:
    """A tuple of classes or dotted paths, or ``ValueError`` that completes "permission_classes ..."."""
    if value is None:
        return None
    # Instances are welcome too: "IsOwner | IsAdmin" of REST framework is no class.
    if isinstance(value, (list, tuple)) and all(callable(each) or isinstance(each, str) for each in value):
        return tuple(value)
    raise ValueError(f"must be a list of permission classes, not {value!r}")


def read_count(value: Any) -> int:
    """A whole number above 0, or ``ValueError`` that completes the option's name."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError(f"must be a whole number above 0, not {value!r}")


def _options_in(declared: type) -> Iterator[tuple[str, Any]]:
    """Also those of ``class Meta(Parent.Meta)``, but not what a parent says of itself alone."""
    for base in reversed(declared.__mro__[:-1]):
        for name, value in vars(base).items():
            own = base is declared or name not in ("name", "abstract")
            if own and not name.startswith("_"):
                yield name, value


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"must be True or False, not {value!r}")


def _word(value: Any) -> str:
    if isinstance(value, str) and _WORD(value):
        return value
    raise ValueError(f"must be a word of letters, digits and _.- (at most 200), not {value!r}")


_WORD = re.compile(r"[A-Za-z0-9_.-]{1,200}").fullmatch


def _duration(value: Any) -> float:
    try:
        return seconds(value, "it", minimum=0)
    except InvalidStepError as error:
        raise ValueError(str(error).removeprefix("it ")) from None


def _limit(value: Any) -> float:
    limit = _duration(value)
    if limit == 0:
        raise ValueError(f"must be above 0 s (None: no limit), not {value!r}")
    if limit > LONGEST_SECONDS:
        raise ValueError(f"must be at most {LONGEST_SECONDS:.0f} s (None: no limit), not {value!r}")
    return limit


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "name": _or_none(_word),
    "app_label": _or_none(_word),
    "abstract": _flag,
    "celery_queue": _or_none(_word),
    "permission_classes": read_permission_classes,
    "max_queue_size": read_count,
    "max_message_size": read_count,
    "run_timeout": _or_none(_limit),
    "max_running": _or_none(read_count),
    "retention": _or_none(_duration),
}
