"""The mailbox."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_rivet.models.actor import Actor


class Message(models.Model):
    """One message to an actor. Its id is its place in the queue."""

    class Status(models.TextChoices):
        QUEUED = "queued", _("queued")
        OPEN = "open", _("open")
        HANDLED = "handled", _("handled")
        COMPLETED = "completed", _("completed")

    id = models.BigAutoField(primary_key=True)
    actor = models.ForeignKey(Actor, models.CASCADE, related_name="messages", db_index=False)
    queue = models.CharField(_("queue"), max_length=200)
    body = models.TextField(_("body"))
    status = models.CharField(_("status"), max_length=20, choices=Status.choices, default=Status.QUEUED)
    idempotency_key = models.CharField(_("idempotency key"), max_length=255, null=True)
    created_at = models.DateTimeField(_("sent"))
    visible_at = models.DateTimeField(_("due"))
    handled_at = models.DateTimeField(_("handled"), null=True)
    response = models.TextField(_("response"), null=True)

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        constraints = [
            models.UniqueConstraint(
                fields=["actor", "idempotency_key"],
                condition=models.Q(idempotency_key__isnull=False),
                name="rivet_message_idempotency",
            )
        ]
        indexes = [
            models.Index(fields=["actor", "id"], condition=models.Q(status="queued"), name="rivet_message_queued"),
            models.Index(fields=["actor", "status", "id"], name="rivet_message_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.pk}"
