"""What has to be true when the orders have ended, checked against history, ledger and inventory."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from rich.console import Console
from rich.table import Table

from django_rivet.conf import get_settings
from example_project.demo.api import Api
from example_project.demo.story import Entry, Kill, Order, Story
from example_project.shop import gateway
from example_project.shop.actors import BillingActor, InventoryActor
from example_project.shop.models import GatewayRequest, Invoice, LedgerEntry


def show(console: Console, story: Story) -> None:
    """The gateway's ledger and requests, and the shop's own books."""
    ids = [order.id for order in story.orders]
    requests = _table("Requests at the gateway", "order", "asks to", "answer", "idempotency key")
    for request in GatewayRequest.objects.filter(order_id__in=ids):
        requests.add_row(request.order_id, request.kind, request.answer, request.idempotency_key)
    ledger = _table("The gateway's ledger", "order", "entry", "amount")
    for entry in LedgerEntry.objects.filter(order_id__in=ids):
        ledger.add_row(entry.order_id, entry.kind, f"{entry.amount / 100:+.2f}")
    shop = _table("The shop", "order", "reserved", "invoice", "paid")
    reserved = _reserved()
    for order_id in ids:
        invoice = "yes" if Invoice.objects.filter(order_id=order_id).exists() else "no"
        paid = f"{gateway.balance(order_id) / 100:.2f}"
        shop.add_row(order_id, str(reserved.count(order_id)), invoice, paid)
    for table in (requests, ledger, shop):
        console.print()
        console.print(table)


def faults(api: Api, story: Story, kill: Kill) -> list[str]:
    """What is not as it should be; empty when each order ended as it should."""
    history, state = api.history(), api.checkout()["state"]
    rejected = state["rejected"]
    found = [
        *_confirmed(story.good, history),
        *_confirmed(story.killed, history, charges=2),
        *_compensated(story.declined, history, rejected),
        *_in_time(story.killed, history, kill),
    ]
    earned = BillingActor.get_or_create("main").state.earned
    paid = sum(entry.amount for entry in LedgerEntry.objects.all())
    if earned != paid:
        found.append(f"the books say {earned} and the gateway's ledger {paid} cents")
    return found


# Below: how it is done ---------------------------------------------------------------------------


def _confirmed(order: Order, history: list[Entry], charges: int = 1) -> Iterator[str]:
    steps = _steps(order, history)
    wanted = [("reserve", "completed", 1), ("charge", "completed", charges), ("confirm", "completed", 1)]
    if steps != wanted:
        yield f"{order.id}: its steps are {steps}, not {wanted}"
    requests = GatewayRequest.objects.filter(order_id=order.id)
    keys = requests.values_list("idempotency_key", flat=True)
    if len(keys) != charges or len(set(keys)) != 1:
        yield f"{order.id}: {charges} requests under one idempotency key were to be made, not {list(keys)}"
    yield from _outcome(order, entries=[gateway.PRICE], reserved=1, invoices=1)


def _compensated(order: Order, history: list[Entry], rejected: list[str]) -> Iterator[str]:
    steps = _steps(order, history)
    wanted = [("reserve", "completed", 1), ("charge", "failed", 1), ("reject", "completed", 1)]
    if steps != wanted:
        yield f"{order.id}: its steps are {steps}, not {wanted}"
    undone = [e for e in order.entries(history) if e["rollback"] and e["rollback"]["status"] == "completed"]
    if not any(e["path"].endswith("/reserve") for e in undone):
        yield f"{order.id}: reserve was not rolled back"
    if rejected.count(order.id) != 1:
        yield f"{order.id}: it was to be rejected once; rejected are {rejected}"
    yield from _outcome(order, entries=[], reserved=0, invoices=0)


def _outcome(order: Order, *, entries: list[int], reserved: int, invoices: int) -> Iterator[str]:
    amounts = [entry.amount for entry in LedgerEntry.objects.filter(order_id=order.id)]
    if amounts != entries:
        yield f"{order.id}: the ledger has {amounts}, not {entries}"
    if (count := _reserved().count(order.id)) != reserved:
        yield f"{order.id}: reserved {count} times, not {reserved}"
    if (count := Invoice.objects.filter(order_id=order.id).count()) != invoices:
        yield f"{order.id}: {count} invoices, not {invoices}"


def _in_time(order: Order, history: list[Entry], kill: Kill) -> Iterator[str]:
    """From when a worker was free: the dead one's lease, one sweep, and a second for the work."""
    rivet = get_settings()
    sweep = rivet.SWEEP_SECONDS or (1.0 if settings.REDIS_URL else 0.1)
    allowed = rivet.LEASE_SECONDS + sweep + 1.0
    ended = [e["ended_at"] for e in order.entries(history) if e["path"].endswith("/confirm")]
    took = datetime.fromisoformat(ended[0]) - max(kill.at, kill.ready_at) if ended else timedelta.max
    if took > timedelta(seconds=allowed):
        yield f"{order.id}: taken over after {took.total_seconds():.1f} s; {allowed:g} s were allowed"


def _steps(order: Order, history: list[Entry]) -> list[tuple[str, str, int]]:
    steps = [e for e in order.entries(history) if e["kind"] == "step"]
    return [(e["path"].rpartition("/")[2], e["status"], e["attempts"]) for e in steps]


def _reserved() -> list[str]:
    reserved: list[str] = InventoryActor.get_or_create("main").state.reserved
    return reserved


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left")
