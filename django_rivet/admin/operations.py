"""What an operator may do to an actor's workflow, and under which permission."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_rivet.models import Actor, Compensation, WorkflowRun
from django_rivet.runtime.operating import carry_out
from django_rivet.store import lifecycle
from django_rivet.store.database import alias
from django_rivet.store.lifecycle import Verdict

Status = WorkflowRun.Status
_NOT_OVER = frozenset(Status.values) - {Status.COMPLETED, Status.CANCELLED}


@dataclass(frozen=True)
class Operation:
    """A button, the question behind it, and what it does."""

    name: str
    permission: str
    label: str | Promise
    explanation: str | Promise
    consent: str | Promise
    done: str | Promise
    statuses: frozenset[str]
    """Where it has any effect."""
    act: Callable[[uuid.UUID], Verdict]
    is_grave: bool = False
    pays_debts: bool = True
    """Whether the steps that would be rolled back are; False: they are left as they are."""


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
        statuses=frozenset({Status.FAILED, Status.ROLLBACK_FAILED}),
        act=lifecycle.recover,
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
        statuses=_NOT_OVER,
        act=partial(lifecycle.cancel, rollback=False),
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
        statuses=_NOT_OVER,
        act=partial(lifecycle.cancel, rollback=True),
        is_grave=True,
    ),
)


def operate(operation: Operation, actor: Actor, record: Callable[[], None]) -> bool:
    """Do it, and ``record`` it in the same transaction; False where the status does not allow it.

    Not through a handle: an actor whose class is gone must still be ended.
    """
    return carry_out(operation.act, actor.pk, actor.type, record)


def owed(actor_id: uuid.UUID) -> int:
    """How many steps have a rollback handler that would run."""
    return Compensation.objects.using(alias()).filter(actor_id=actor_id, status__in=["owed", "failed"]).count()
