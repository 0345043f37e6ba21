"""The actor's workflow: how it stands, who may drive it, and what it waits for."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_rivet.models.actor import Actor


class WorkflowRun(models.Model):
    """Locked last and for an instant only: by a claim, a heartbeat, a cancellation, and at the end of each commit."""

    class Status(models.TextChoices):
        PENDING = "pending", _("pending")
        RUNNING = "running", _("running")
        SLEEPING = "sleeping", _("sleeping")
        ROLLING_BACK = "rolling_back", _("rolling back")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        ROLLBACK_FAILED = "rollback_failed", _("rollback failed")
        CANCELLED = "cancelled", _("cancelled")
        PAUSED = "paused", _("paused")
        DIVERGED = "diverged", _("diverged")

    class Request(models.TextChoices):
        NONE = "", _("none")
        CANCEL = "cancel", _("cancel")
        CANCEL_ROLLBACK = "cancel_rollback", _("cancel and roll back")

    actor = models.OneToOneField(Actor, models.CASCADE, primary_key=True, related_name="run")
    status = models.CharField(_("status"), max_length=20, choices=Status.choices, default=Status.PENDING)
    generation = models.PositiveIntegerField(default=0, help_text=_("How often history was set aside."))
    output = models.TextField(_("output"), null=True)
    error = models.TextField(_("error"), null=True)
    request = models.CharField(max_length=20, choices=Request.choices, default=Request.NONE, blank=True)
    pausing = models.BooleanField(
        default=False, help_text=_("It was told to pause, and the worker that drives it has not done so yet.")
    )
    paused_from = models.CharField(
        max_length=20, choices=Status.choices, default="", blank=True, help_text=_("How it stood before it was paused.")
    )

    epoch = models.BigIntegerField(
        default=0, help_text=_("Goes up with every claim; a commit of an older one is void.")
    )
    holder = models.CharField(max_length=200, null=True, help_text=_("The worker that drives it."))
    lease_until = models.DateTimeField(null=True)
    cut_off = models.BooleanField(
        default=False, help_text=_("The last drive did not end by itself: what it had noted is lost.")
    )
    leaving = models.BooleanField(
        default=False, help_text=_("Its worker was told to stop: should it die now, nobody here is to blame.")
    )
    takeovers = models.PositiveIntegerField(default=0, help_text=_("Workers in a row that died without progress."))

    started_at = models.DateTimeField(
        null=True,
        help_text=_("When it was first driven, or first since it was recovered: run_timeout counts from here."),
    )
    due_at = models.DateTimeField(_("due"), null=True)
    waiting = models.TextField(
        null=True, help_text=_("Queues it waits for, as ',a,b,'; ',' means any; null: for no message.")
    )
    updated_at = models.DateTimeField(_("updated"))

    class Meta:
        verbose_name = _("workflow run")
        verbose_name_plural = _("workflow runs")
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="rivet_run_due"),
            models.Index(fields=["lease_until"], condition=models.Q(holder__isnull=False), name="rivet_run_lease"),
            models.Index(fields=["status"], name="rivet_run_status"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_id} {self.status}"

    @property
    def wake_at(self) -> datetime | None:
        """When it goes on by itself: a paused one does not, though its timer is kept."""
        return None if self.status == self.Status.PAUSED else self.due_at
