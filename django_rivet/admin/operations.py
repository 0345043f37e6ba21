"""What an operator may do to an actor's workflow, and under which permission."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_rivet.admin.handlers import seen_of_handler
from django_rivet.models import Actor, Compensation, WorkflowRun
from django_rivet.runtime.operating import carry_out, checked_note, checked_person
from django_rivet.store import lifecycle, pausing, rollbacks
from django_rivet.store.database import alias
from django_rivet.store.lifecycle import FINISHED, Verdict

Status = WorkflowRun.Status

Text = str | Promise


@dataclass(frozen=True, slots=True)
class Instruction:
    """What was asked for, by whom, and on the page of which moment."""

    by: str = ""
    path: str = ""
    """Of the step whose handler is meant; empty where the workflow is."""
    text: str = ""
    """The reason, or the note."""
    seen: str = ""
    """What ``Operation.seen`` was when the operator was asked; empty: whatever it was."""


@dataclass(frozen=True)
class Operation:
    """A button, the question behind it, and what it does."""

    name: str
    permission: str
    label: Text
    explanation: Text
    consent: Text
    done: Text
    fits: Callable[[WorkflowRun], bool]
    """Whether it would have any effect."""
    act: Callable[[uuid.UUID, Instruction], Verdict]
    seen: Callable[[WorkflowRun, str], str] = lambda run, path: ""
    """What has changed when the same button would do it a second time, to another failure than the one looked at."""
    is_grave: bool = False
    pays_debts: bool = True
    """Whether the steps that would be rolled back are; False: they are left as they are."""
    concerns_handler: bool = False
    asks_for: Text = ""
    """The label of the text that it needs."""


class OutdatedPageError(Exception):
    """Something happened after the operator looked; nothing was changed."""


def operate(operation: Operation, actor: Actor, instruction: Instruction, record: Callable[[], None]) -> bool:
    """Do it, and ``record`` it in the same transaction; False where the status does not allow it.

    Not through a handle: an actor whose class is gone must still be ended. Raises ``OutdatedPageError``, and what the
    operation refuses with: ``RivetError``.
    """

    def act(actor_id: uuid.UUID) -> Verdict:
        run = lifecycle.locked(actor_id)
        if instruction.seen and instruction.seen != operation.seen(run, instruction.path):
            raise OutdatedPageError
        return operation.act(actor_id, instruction)

    return carry_out(act, actor.pk, actor.type, record)


def owed(actor_id: uuid.UUID) -> int:
    """How many steps have a rollback handler that would run."""
    return Compensation.objects.using(alias()).filter(actor_id=actor_id, status__in=["owed", "failed"]).count()


# What fits, and what is done ----------------------------------------------------------------------


def _has_failed(run: WorkflowRun) -> bool:
    return run.status in (Status.FAILED, Status.ROLLBACK_FAILED)


def _is_not_over(run: WorkflowRun) -> bool:
    return run.status not in FINISHED


def _can_be_paused(run: WorkflowRun) -> bool:
    return not run.pausing and run.status != Status.PAUSED and _is_not_over(run) and not _has_failed(run)


def _is_paused(run: WorkflowRun) -> bool:
    return run.pausing or run.status == Status.PAUSED


def _rolls_back(run: WorkflowRun) -> bool:
    return _is_not_over(run) and run.status != Status.FAILED


def _recover(actor_id: uuid.UUID, _instruction: Instruction) -> Verdict:
    return lifecycle.recover(actor_id)


def _cancel(actor_id: uuid.UUID, _instruction: Instruction) -> Verdict:
    return lifecycle.cancel(actor_id, rollback=False)


def _cancel_and_roll_back(actor_id: uuid.UUID, _instruction: Instruction) -> Verdict:
    return lifecycle.cancel(actor_id, rollback=True)


def _pause(actor_id: uuid.UUID, _instruction: Instruction) -> Verdict:
    # A second click is no second event for the log.
    return Verdict(False) if _is_paused(lifecycle.locked(actor_id)) else pausing.pause(actor_id)


def _resume(actor_id: uuid.UUID, _instruction: Instruction) -> Verdict:
    return pausing.resume(actor_id)


def _retry(actor_id: uuid.UUID, asked: Instruction) -> Verdict:
    return rollbacks.retry(actor_id, asked.path)


def _skip(actor_id: uuid.UUID, asked: Instruction) -> Verdict:
    reason = checked_note(asked.text, "reason")
    return rollbacks.skip(actor_id, asked.path, reason=reason, by=checked_person(asked.by))


def _confirm(actor_id: uuid.UUID, asked: Instruction) -> Verdict:
    note = checked_note(asked.text, "note")
    return rollbacks.confirm(actor_id, asked.path, note=note, by=checked_person(asked.by))


# The buttons --------------------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="recover",
        permission="django_rivet.recover_actor",
        label=_("Recover"),
        consent=_("Yes, recover it"),
        explanation=_(
            "The steps that the error passed through get fresh attempts, and steps that were rolled back run again "
            "when they are reached. A rollback that gave up goes on with the handler that failed. Completed steps do "
            "not run again."
        ),
        done=_("The workflow was recovered and goes on."),
        fits=_has_failed,
        act=_recover,
        seen=lambda run, path: str(run.epoch),
    ),
    Operation(
        name="pause",
        permission="django_rivet.pause_actor",
        label=_("Pause"),
        consent=_("Yes, pause it"),
        explanation=_(
            "The workflow stands still until it is resumed. Messages are stored and timers kept, but nothing of it "
            "happens meanwhile. A step that is running now is not interrupted."
        ),
        done=_("The workflow is paused, or will be when the step that is running now has ended."),
        fits=_can_be_paused,
        act=_pause,
    ),
    Operation(
        name="resume",
        permission="django_rivet.pause_actor",
        label=_("Resume"),
        consent=_("Yes, resume it"),
        explanation=_("The workflow goes on as before it was paused. What became due meanwhile is done now."),
        done=_("The workflow goes on."),
        fits=_is_paused,
        act=_resume,
    ),
    Operation(
        name="cancel",
        permission="django_rivet.cancel_actor",
        label=_("Cancel"),
        consent=_("Yes, cancel it"),
        explanation=_(
            "The workflow ends and takes no more messages. What its steps have done stays done. A step that is running "
            "now is not interrupted."
        ),
        done=_("The workflow was cancelled, or will be when the step that is running now has ended."),
        fits=_is_not_over,
        act=_cancel,
        is_grave=True,
        pays_debts=False,
    ),
    Operation(
        name="cancel-rollback",
        permission="django_rivet.cancel_actor",
        label=_("Cancel and roll back"),
        consent=_("Yes, cancel it and roll back"),
        explanation=_(
            "The workflow ends and takes no more messages. The rollback handlers of its completed steps run first, the "
            "newest step in front."
        ),
        done=_("The workflow is being cancelled; what it owes is rolled back first."),
        fits=_is_not_over,
        act=_cancel_and_roll_back,
        is_grave=True,
    ),
)
"""On a workflow."""

HANDLER_OPERATIONS = (
    Operation(
        name="retry-handler",
        permission="django_rivet.compensate_actor",
        label=_("Retry handler"),
        consent=_("Yes, retry it"),
        explanation=_("The handler gets fresh attempts, and the rollback goes on with it."),
        done=_("The handler is tried again."),
        fits=_rolls_back,
        act=_retry,
        seen=seen_of_handler,
        concerns_handler=True,
    ),
    Operation(
        name="skip-handler",
        permission="django_rivet.compensate_actor",
        label=_("Skip handler"),
        consent=_("Yes, skip it"),
        explanation=_(
            "What the step did will not be undone, now or later. The rollback goes on with the older handlers. The "
            "history shows the reason and your name."
        ),
        done=_("The handler is skipped: what its step did stays as it is."),
        fits=lambda run: True,
        act=_skip,
        seen=seen_of_handler,
        is_grave=True,
        concerns_handler=True,
        asks_for=_("Reason"),
    ),
    Operation(
        name="confirm-handler",
        permission="django_rivet.compensate_actor",
        label=_("Mark done"),
        consent=_("Yes, it is done"),
        explanation=_(
            "Somebody has undone by hand what the step did. The handler does not run any more, and the rollback goes "
            "on with the older ones. The history shows the note and your name."
        ),
        done=_("The handler is marked done: somebody has undone its step by hand."),
        fits=lambda run: True,
        act=_confirm,
        seen=seen_of_handler,
        concerns_handler=True,
        asks_for=_("Note"),
    ),
)
"""On a rollback handler that is out of attempts."""
