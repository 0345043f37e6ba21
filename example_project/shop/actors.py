# mypy: allow-untyped-defs, allow-any-generics
"""The shop: a checkout that takes orders one by one, and the inventory and the books that it works with.

`CheckoutActor` is where to start. What its steps do is done exactly once, except for the charge: money moves on a
computer that is not ours, so that step asks at least once, under one idempotency key.
"""

from django_rivet import Actor, Event, Queue, action, workflow
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

    @action
    def book(self, order_id: str, amount: int) -> None:
        self.state.invoices.append(order_id)
        self.state.earned += amount

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
        return InventoryActor.get_or_create("main").reserve(order_id)

    def release(self, rollback, reservation):
        InventoryActor.get_or_create("main").release(reservation)

    def refund(self, rollback, charge_id):
        # Without a charge_id nobody knows whether the card was charged: the gateway finds out by the order.
        gateway.refund(charge_id, order=rollback.args[0], idempotency_key=rollback.idempotency_key)

    def confirm(self, order_id):
        # Lands together with the step's record, or not at all.
        Invoice.objects.create(order_id=order_id)
        BillingActor.get_or_create("main").book(order_id, gateway.PRICE)
        self.state.completed += 1

    def reject(self, order_id, reason):
        self.state.rejected.append(order_id)

    @action(readonly=True)
    def get_state(self):
        return self.state


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
