# mypy: allow-untyped-defs, allow-any-generics
"""The shop: a checkout that takes orders one by one, and the inventory and the books that it works with.

`CheckoutActor` is where to start. What its steps do is done exactly once, except for the charge: money moves on a
computer that is not ours, so that step asks at least once, under one idempotency key.

Below it stand three programs more, each a way to deal with failure: `LedgerSyncActor` is told of it by the error hook,
`DirectCheckoutActor` ends with it, `OrderActor` takes back what it did to other actors.
"""

from django_rivet import Actor, CriticalError, Event, Queue, action, workflow
from example_project.shop import gateway
from example_project.shop.models import Invoice


class InventoryActor(Actor):
    class State:
        reserved: list[str] = []

    @action
    def reserve(self, order_id: str) -> str:
        self.state.reserved.append(order_id)
        return f"reserve-{order_id}"

    @action
    def release(self, reservation: str) -> None:
        self.state.reserved.remove(reservation.removeprefix("reserve-"))


class BillingActor(Actor):
    """Our own books, in cents. They agree with the gateway's as soon as no order is under way."""

    class State:
        earned: int = 0
        invoices: list[str] = []
        open: dict[str, int] = {}

    @action
    def book(self, order_id: str, amount: int) -> None:
        self.state.invoices.append(order_id)
        self.state.earned += amount

    @action
    def bill(self, order_id: str, amount: int) -> str:
        self.state.open[order_id] = amount
        return f"bill-{order_id}"

    @action
    def settle(self, bill: str, paid: int) -> None:
        order_id = bill.removeprefix("bill-")
        if paid != self.state.open[order_id]:
            raise CriticalError(f"{paid} cents were paid, not {self.state.open[order_id]}")
        self.book(order_id, self.state.open.pop(order_id))

    @action
    def void(self, bill: str) -> None:
        del self.state.open[bill.removeprefix("bill-")]

    @action(readonly=True)
    def get_state(self):
        return self.state


class CheckoutActor(Actor):
    class State:
        completed: int = 0
        rejected: list[str] = []
        last_error: dict | None = None

    orders = Queue(dict)
    order_failed = Event(dict)
    order_moved = Event(dict)  # for whoever watches: it leaves with the commit that it tells of

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("checkout"):
            order = turn.queue.next("wait-order", names=["orders"]).body

            def take(saga, order=order):
                saga.rollback_checkpoint("order")
                saga.step("reserve", self.reserve, order["id"], rollback=self.release)
                saga.step(
                    "charge",
                    gateway.charge,
                    order["id"],
                    order.get("card", "valid"),
                    atomic=False,
                    timeout=5,
                    max_retries=3,
                    retry_backoff_base=0.25,
                    retry_backoff_max=1,
                    rollback=self.refund,
                    rollback_when="attempted",
                )
                saga.step("confirm", self.confirm, order["id"])

            result = turn.try_block("order", take, rollback=True)
            if not result.ok:
                turn.step("reject", self.reject, order["id"], result.failure.error.message)

    @run.on_error
    def note_error(self, event):
        self.state.last_error = event.as_dict()
        self.order_failed.broadcast(event.as_dict())

    def reserve(self, order_id):
        self.order_moved.broadcast({"id": order_id, "to": "reserved"})
        return InventoryActor.get_or_create("main").reserve(order_id)

    def release(self, rollback, reservation):
        self.order_moved.broadcast({"id": rollback.args[0], "to": "released"})
        InventoryActor.get_or_create("main").release(reservation)

    def refund(self, rollback, charge_id):
        # Without a charge_id nobody knows whether the card was charged: the gateway finds out by the order.
        gateway.refund(charge_id, order=rollback.args[0], idempotency_key=rollback.idempotency_key)
        self.order_moved.broadcast({"id": rollback.args[0], "to": "refunded"})

    def confirm(self, order_id):
        # Lands together with the step's record, or not at all.
        Invoice.objects.create(order_id=order_id)
        BillingActor.get_or_create("main").book(order_id, gateway.PRICE)
        self.state.completed += 1
        self.order_moved.broadcast({"id": order_id, "to": "confirmed"})

    def reject(self, order_id, reason):
        self.state.rejected.append(order_id)
        self.order_moved.broadcast({"id": order_id, "to": "rejected"})

    @action(readonly=True)
    def get_state(self):
        return self.state


class LedgerSyncActor(Actor):
    """The error hook: the gateway's ledger can't be reached, and is asked again after 0.5, 1 and 1 seconds.

    Whoever watches hears of each failure, and the last one stands in state. The key is the account at the gateway.
    """

    class State:
        total: int | None = None
        last_error: dict | None = None

    sync_failed = Event(dict)

    @workflow
    def run(self, ctx):
        total = ctx.step(
            "fetch",
            gateway.ledger_total,
            self.key,
            atomic=False,
            max_retries=3,
            retry_backoff_base=0.25,
            retry_backoff_max=1,
            retry_jitter=0,
        )
        ctx.step("keep", self.keep, total)

    @run.on_error
    def note_error(self, event):
        # In the transaction that records the failure: state, event and record, or none of them.
        self.state.last_error = event.as_dict()
        self.sync_failed.broadcast(event.as_dict())

    def keep(self, total):
        self.state.total = total
        self.state.last_error = None


class DirectCheckoutActor(CheckoutActor):
    """The same saga directly in the loop: a declined card ends the workflow, after the same rollback.

    Orders of earlier iterations stay. `recover()` takes the failed one up again, with its compensated steps.
    """

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("checkout"):
            order = turn.queue.next("wait-order", names=["orders"]).body
            turn.rollback_checkpoint("order")
            turn.step("reserve", self.reserve, order["id"], rollback=self.release)
            turn.step(
                "charge",
                gateway.charge,
                order["id"],
                order.get("card", "valid"),
                atomic=False,
                timeout=5,
                max_retries=3,
                retry_backoff_base=0.25,
                retry_backoff_max=1,
                rollback=self.refund,
                rollback_when="attempted",
            )
            turn.step("confirm", self.confirm, order["id"])


class OrderActor(Actor):
    """One order, whose id is the key, paid by bank transfer within 30 seconds; or else nothing of it is left.

    The saga goes over two other actors: what their actions did, other actions of theirs take back.
    """

    class State:
        outcome: str = "open"

    payments = Queue(int)

    @workflow
    def run(self, ctx):
        result = ctx.try_block("order", self.take, rollback=True)
        ctx.step("close", self.close, "paid" if result.ok else result.failure.error.message)

    def take(self, saga):
        saga.rollback_checkpoint("order")
        saga.step("reserve", self.reserve, rollback=self.release)
        bill = saga.step("bill", self.bill, rollback=self.void)
        payments = saga.queue.next_batch("wait-payment", names=["payments"], count=10, timeout=30)
        if not payments:
            raise CriticalError("nothing was paid within 30 s")
        saga.step("settle", self.settle, bill, sum(payment.body for payment in payments))

    def reserve(self):
        return InventoryActor.get_or_create("main").reserve(self.key)

    def release(self, rollback, reservation):
        InventoryActor.get_or_create("main").release(reservation)

    def bill(self):
        return BillingActor.get_or_create("transfers").bill(self.key, gateway.PRICE)

    def void(self, rollback, bill):
        BillingActor.get_or_create("transfers").void(bill)

    def settle(self, bill, paid):
        BillingActor.get_or_create("transfers").settle(bill, paid)

    def close(self, outcome):
        self.state.outcome = outcome
