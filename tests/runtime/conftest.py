"""A saga of one loop over two actors, as the contract's example has it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from django_rivet import Actor, CriticalError, Event, Queue, action, workflow
from django_rivet.testing import isolated_actors


@pytest.fixture
def shop() -> Iterator[SimpleNamespace]:
    """``shop.Checkout`` and ``shop.Stock``; ``shop.calls`` is the outside world."""
    calls: list[str] = []
    with isolated_actors():

        class Stock(Actor):
            class State:
                reserved: list[str] = []

            @action
            def reserve(self, order_id: str) -> str:
                self.state.reserved.append(order_id)
                return f"reserve-{order_id}"

            @action
            def release(self, reservation: str) -> None:
                self.state.reserved.remove(reservation.removeprefix("reserve-"))

        class Checkout(Actor):
            class State:
                completed: list[str] = []
                rejected: list[str] = []

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
                            self.charge,
                            order["id"],
                            atomic=False,
                            rollback=self.refund,
                            rollback_when="attempted",
                        )
                        saga.step("confirm", self.confirm, order)

                    if not turn.try_block("order", take, rollback=True).ok:
                        turn.step("reject", self.reject, order["id"])

            @run.on_error
            def note_error(self, event):
                self.order_failed.broadcast(event.as_dict())

            def reserve(self, order_id):
                calls.append(f"reserve {order_id}")
                return Stock.get_or_create("main").reserve(order_id)

            def release(self, rollback, reservation):
                calls.append(f"release {reservation}")
                Stock.get_or_create("main").release(reservation)

            def charge(self, order_id):
                calls.append(f"charge {order_id}")
                return f"charge-{order_id}"

            def refund(self, rollback, charge):
                calls.append(f"refund {rollback.args[0]}")

            def confirm(self, order):
                if order.get("fails"):
                    raise CriticalError("out of stock after all")
                self.state.completed.append(order["id"])

            def reject(self, order_id):
                self.state.rejected.append(order_id)

            @action
            def clear(self) -> None:
                self.state.completed.clear()

        yield SimpleNamespace(Checkout=Checkout, Stock=Stock, calls=calls)
