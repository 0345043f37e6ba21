"""What a rollback undoes, and how far it is."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_rivet.models.actor import Actor


class Compensation(models.Model):
    """The rollback handler that a completed step registered; see ``engine/entries.py``."""

    id = models.BigAutoField(primary_key=True)
    actor = models.ForeignKey(Actor, models.CASCADE, related_name="compensations", db_index=False)
    path = models.TextField(_("step"))
    run = models.PositiveIntegerField(default=0)
    scope = models.TextField(_("undo scope"), blank=True)
    seq = models.BigIntegerField()
    handler = models.TextField(_("handler"))
    args = models.TextField()
    output = models.TextField(null=True)
    outcome = models.CharField(_("outcome"), max_length=20)
    status = models.CharField(_("status"), max_length=20)
    on_failure = models.CharField(max_length=20)
    atomic = models.BooleanField(default=True)
    max_retries = models.PositiveIntegerField()
    backoff_base = models.FloatField()
    backoff_max = models.FloatField()
    jitter = models.FloatField()
    timeout = models.FloatField()
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    error = models.TextField(_("error"), null=True)
    note = models.TextField(
        _("note"), null=True, help_text=_("Why an operator skipped it, or how it was undone by hand.")
    )
    decided_by = models.CharField(_("decided by"), max_length=255, null=True)
    due_at = models.DateTimeField(_("due"), null=True)
    started_at = models.DateTimeField(_("started"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)

    class Meta:
        verbose_name = _("compensation")
        verbose_name_plural = _("compensations")
        constraints = [models.UniqueConstraint(fields=["actor", "path", "run"], name="rivet_compensation_step")]

    def __str__(self) -> str:
        return f"{self.path} {self.status}"
