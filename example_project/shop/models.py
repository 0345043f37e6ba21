"""Our own table, and below it the gateway's: those stand for another company's computer.

Only `gateway.py` writes the gateway's, on a connection of its own.
"""

from django.db import models


class Invoice(models.Model):
    """A confirmed order. One order has one invoice, or none."""

    order_id = models.CharField(max_length=200, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"invoice for {self.order_id}"


# The gateway's -----------------------------------------------------------------------------------


class GatewayCard(models.Model):
    """What the bank says about a card. A card without a row is a test card: it behaves as its number says."""

    class Behaviour(models.TextChoices):
        VALID = "valid", "charges at once"
        DECLINED = "declined", "is declined"
        SLOW = "slow", "charges at once, answers later"
        LATE = "late", "charges and answers after everybody has stopped waiting"
        FLAKY = "flaky", "can't be reached twice, then charges"

    number = models.CharField(max_length=40, primary_key=True)
    behaviour = models.CharField(max_length=10, choices=Behaviour.choices)

    def __str__(self) -> str:
        return f"card {self.number}: {self.behaviour}"


class GatewayOrder(models.Model):
    """What the gateway calls an order. Its row is the lock under which one request after another is worked on."""

    order_id = models.CharField(max_length=200, primary_key=True)

    def __str__(self) -> str:
        return self.order_id


class GatewayRequest(models.Model):
    """One call that reached the gateway, repeated ones included."""

    class Kind(models.TextChoices):
        CHARGE = "charge", "charge"
        REFUND = "refund", "refund"

    class Answer(models.TextChoices):
        CHARGED = "charged", "charged"
        DECLINED = "declined", "declined"
        UNAVAILABLE = "unavailable", "unavailable"
        CALLED_OFF = "called_off", "called off"
        REFUNDED = "refunded", "refunded"
        NOTHING_DUE = "nothing_due", "nothing to refund"
        NOTHING_YET = "nothing_yet", "nothing to refund yet"

    order = models.ForeignKey(GatewayOrder, models.PROTECT, related_name="requests")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    idempotency_key = models.CharField(max_length=100, db_index=True)
    answer = models.CharField(max_length=20, choices=Answer.choices)
    asked_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.order_id}: {self.answer}"


class LedgerEntry(models.Model):
    """Money that moves when its time has come. Nothing here is ever changed or deleted."""

    class Kind(models.TextChoices):
        CHARGE = "charge", "charge"
        REFUND = "refund", "refund"

    order = models.ForeignKey(GatewayOrder, models.PROTECT, related_name="ledger")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    amount = models.IntegerField(help_text="In cents: charges are positive, refunds negative.")
    idempotency_key = models.CharField(max_length=100)
    refunds = models.OneToOneField("self", models.PROTECT, null=True, blank=True, related_name="refunded_by")
    lands_at = models.DateTimeField(help_text="When the money moves, whoever is still waiting for it by then.")

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "ledger entries"
        constraints = [
            models.UniqueConstraint(
                fields=["idempotency_key"], condition=models.Q(kind="charge"), name="shop_one_charge_for_a_key"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.order_id}: {self.amount / 100:+.2f}"

    @property
    def charge_id(self) -> str:
        return f"charge-{self.pk}"
