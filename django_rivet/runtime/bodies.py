"""Run what users wrote, and tell whose fault an error is."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import Error, transaction

from django_rivet.actors.actor import Actor
from django_rivet.actors.turn import turn_open
from django_rivet.engine.current import Completions, CurrentStep, running_body, running_hook
from django_rivet.engine.events import ErrorEvent
from django_rivet.engine.exceptions import StepTimeoutError, WorkflowUsageError
from django_rivet.engine.suspend import Broken
from django_rivet.runtime.actions import finished
from django_rivet.runtime.limits import time_limit
from django_rivet.runtime.turn import WritingTurn
from django_rivet.store.conflicts import is_conflict
from django_rivet.store.database import alias
from django_rivet.store.outages import Held
from django_rivet.store.turns import refuse_broken

logger = logging.getLogger(__name__)

HOOK_SECONDS = 5.0


class BodyError(Exception):
    """Carries a body's error out of its transaction, which is rolled back by it."""

    def __init__(self, error: BaseException, reruns: int = 0) -> None:
        self.error = error
        self.reruns = reruns
        """How often it was run before, and met a conflict."""


@dataclass(frozen=True, slots=True)
class Body:
    """The call of a step's body, or of a rollback handler."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    step: CurrentStep
    limit: float
    """Seconds; 0 or less: none."""
    completions: Completions | None = None
    """Where it notes the messages that it completes; a handler completes none."""

    def run(self) -> Any:
        """Its value; ``StepTimeoutError`` after ``limit`` seconds."""
        with running_body(self.step, self.completions), time_limit(self.limit, f"step {self.step.name!r}"):
            return finished(self.function(*self.args, **self.kwargs))


def tell_hook(actor: Actor[Any], event: ErrorEvent, turn: WritingTurn) -> bool:
    """Call the error hook in a savepoint of the open transaction. One that raises is logged, and its writes undone.

    Returns whether there is one.
    """
    workflow = type(actor).definition.workflow
    if workflow is None or workflow.on_error is None:
        return False
    try:
        with turn_open(turn), turn.undone_on_error(), running_hook(), transaction.atomic(alias()):
            if inspect.iscoroutinefunction(workflow.on_error):
                turn.get_state()
            with time_limit(HOOK_SECONDS, "the error hook"):
                finished(workflow.on_error(actor, event))
                refuse_broken()
            turn.check()
    except Exception as error:
        if isinstance(error, Error) and is_conflict(error):
            raise  # the hook is not to blame: record and hook are tried again
        logger.exception("the error hook of %r raised; its writes are undone", actor)
    return True


@contextmanager
def errors_of_the_body(*, is_handler: bool = False) -> Iterator[None]:
    """Errors of a body are its own; those of the engine around it are not.

    Usage errors of a step are the workflow's; a handler has no workflow around it that could fail by them.
    """
    held = Held()
    try:
        yield
    except WorkflowUsageError as error:
        if not is_handler:
            raise
        raise BodyError(error) from None
    except (Exception, asyncio.CancelledError) as error:
        if not isinstance(error, StepTimeoutError) and held.was_lost(error):
            raise Broken from error
        raise BodyError(error) from None


@contextmanager
def errors_of_the_database() -> Iterator[None]:
    """The database failed the engine: no step is to blame, and the workflow must not be able to catch it."""
    try:
        yield
    except Error as error:
        raise Broken from error
