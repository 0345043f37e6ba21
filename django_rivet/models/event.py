"""What actors broadcast."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_rivet.models.actor import Actor


class Event(models.Model):
    """One broadcast, kept for ``EVENT_RETENTION`` so that a client that was away can catch up."""

    id = models.BigAutoField(primary_key=True)
    actor = models.ForeignKey(Actor, models.CASCADE, related_name="events", db_index=False)
    seq = models.BigIntegerField(help_text=_("Without gaps per actor, in the order of the commits."))
    name = models.CharField(_("name"), max_length=200)
    payload = models.TextField(_("payload"))
    created_at = models.DateTimeField(_("sent"))

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints = [models.UniqueConstraint(fields=["actor", "seq"], name="rivet_event_seq")]
        indexes = [models.Index(fields=["created_at"], name="rivet_event_created")]

    def __str__(self) -> str:
        return f"{self.name} {self.seq}"
