"""The history."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_rivet.models.actor import Actor


class Entry(models.Model):
    """One recorded thing that a workflow did or waits for; see ``engine/entries.py``."""

    id = models.BigAutoField(primary_key=True)
    actor = models.ForeignKey(Actor, models.CASCADE, related_name="entries", db_index=False)
    path = models.TextField(_("path"))
    kind = models.CharField(_("kind"), max_length=20)
    status = models.CharField(_("status"), max_length=20)
    seq = models.BigIntegerField()
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    interruptions = models.PositiveIntegerField(default=0)
    run = models.PositiveIntegerField(default=0)
    atomic = models.BooleanField(default=True)
    binds = models.BooleanField(default=True)
    output = models.TextField(_("output"), null=True)
    error = models.TextField(_("error"), null=True)
    failure_kind = models.CharField(max_length=20, null=True)
    due_at = models.DateTimeField(_("due"), null=True)
    started_at = models.DateTimeField(_("started"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)
    generation = models.PositiveIntegerField(default=0, help_text=_("In which it was recorded."))
    retired = models.PositiveIntegerField(
        null=True, help_text=_("The last generation it belongs to, where it was set aside.")
    )

    class Meta:
        verbose_name = _("history entry")
        verbose_name_plural = _("history entries")
        constraints = [
            models.UniqueConstraint(
                fields=["actor", "path"], condition=models.Q(retired__isnull=True), name="rivet_entry_live"
            )
        ]
        indexes = [models.Index(fields=["actor", "seq"], name="rivet_entry_seq")]

    def __str__(self) -> str:
        return f"{self.path} {self.status}"
