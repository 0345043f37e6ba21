"""The shop's tables, to look at: what stands in them was written by steps."""

from django.contrib import admin
from django.http import HttpRequest

from example_project.shop.models import GatewayCard, GatewayRequest, Invoice, LedgerEntry


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Invoice)
class InvoiceAdmin(ReadOnly):
    list_display = ["order_id", "created_at"]


@admin.register(GatewayRequest)
class GatewayRequestAdmin(ReadOnly):
    list_display = ["order_id", "kind", "answer", "idempotency_key", "asked_at"]


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnly):
    list_display = ["order_id", "kind", "amount", "lands_at", "idempotency_key"]


admin.site.register(GatewayCard)
