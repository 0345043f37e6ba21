"""What the code that runs now belongs to: a step's body, a rollback handler, workflow code, or nothing of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from django_rivet.engine.entries import Completion
from django_rivet.engine.exceptions import StepOnlyError


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The step, or rollback handler, whose body is running."""

    name: str
    attempt: int
    """From 1; attempts that a dying worker cut off count here."""
    idempotency_key: str
    """The same on every attempt, after a crash, ``recover()`` and ``replay_from()``; another after a compensation."""
    is_evicted: Callable[[], bool]
    """Whether this worker wants to hand the actor over: a long body may end early."""


class Strand(Protocol):
    """The pass, or one branch of it, that workflow code belongs to."""

    def stop(self, reason: BaseException) -> BaseException:
        """Told of an error that workflow code must not get past."""


class Completions:
    """The messages that one run of a body completes: they count when that run is on record."""

    def __init__(self, owner: Strand) -> None:
        self.owner = owner
        self.made: dict[int, Completion] = {}


def current_step() -> CurrentStep:
    """The step whose body this is; ``LookupError`` outside a body."""
    body = _current.get()
    if isinstance(body, _Body):
        return body.step
    raise LookupError("current_step() is for the body of a step or a rollback handler")


def current_completions() -> Completions | None:
    """What the body that is running completes; None outside a step's body."""
    body = _current.get()
    return body.completions if isinstance(body, _Body) else None


def current_strand() -> Strand | None:
    """Where workflow code, and not a body, is running: what is done here would be done again on each replay."""
    running = _current.get()
    return running.strand if isinstance(running, _Workflow) else None


def in_workflow_code() -> bool:
    return current_strand() is not None


def refuse_in_workflow_code(what: str) -> None:
    """Raise ``StepOnlyError`` where workflow code, and not a body, is running."""
    if in_workflow_code():
        raise misused(
            StepOnlyError(
                f"{what} belongs in a step: workflow code runs again on every replay, and would do it again each time"
            )
        )


def misused(error: StepOnlyError) -> StepOnlyError:
    """To be raised: workflow code that swallows it meets it again at its next verb."""
    strand = current_strand()
    if strand is not None:
        strand.stop(error)
    return error


@contextmanager
def running_body(step: CurrentStep, completions: Completions | None = None) -> Iterator[None]:
    """``completions``: where its run notes what it completes; None: it cannot complete anything."""
    if completions is not None:
        completions.made = {}
    with _set(_Body(step, completions)):
        yield


@contextmanager
def running_workflow(strand: Strand) -> Iterator[None]:
    with _set(_Workflow(strand)):
        yield


@contextmanager
def running_hook() -> Iterator[None]:
    """Hooks and actions are neither workflow code nor a step's body."""
    with _set(None):
        yield


# Below: how it is done ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Workflow:
    strand: Strand


@dataclass(frozen=True, slots=True)
class _Body:
    step: CurrentStep
    completions: Completions | None


_current: ContextVar[_Body | _Workflow | None] = ContextVar("django_rivet_current", default=None)


@contextmanager
def _set(value: _Body | _Workflow | None) -> Iterator[None]:
    token = _current.set(value)
    try:
        yield
    finally:
        _current.reset(token)
