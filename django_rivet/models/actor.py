"""The actor: identity and state. Its row lock is the actor's turn."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils.translation import gettext_lazy as _


class Actor(models.Model):
    """One named object. Destroying it deletes the row; the same key then starts fresh, under another id."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    type = models.CharField(_("type"), max_length=200)
    key = models.TextField(_("key"), help_text=_("Its parts joined by a slash."))
    input = models.TextField(_("input"), default="null", help_text=_("What it was created with."))
    state = models.TextField(_("state"), default="null")
    event_seq = models.BigIntegerField(default=0, help_text=_("Number of the last event."))
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("actor")
        verbose_name_plural = _("actors")
        constraints = [models.UniqueConstraint(fields=["type", "key"], name="rivet_actor_type_key")]
        indexes = [models.Index(fields=["-created_at", "id"], name="rivet_actor_created")]
        permissions = [
            ("recover_actor", "Can recover an actor's workflow"),
            ("cancel_actor", "Can cancel an actor's workflow"),
            ("pause_actor", "Can pause and resume an actor's workflow"),
            ("replay_actor", "Can replay an actor's workflow"),
            ("destroy_actor", "Can destroy an actor"),
            ("send_actor", "Can send a message to an actor"),
            ("call_actor", "Can call an action of an actor"),
            ("compensate_actor", "Can retry, skip or mark done a rollback handler"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.key}"
