"""Actors for a saga over two of them, with workers of their own."""

from __future__ import annotations

import time

from django_rivet import Actor, CriticalError, Queue, action, current_step, workflow
from tests.journeys import outside


class ShelfActor(Actor):
    """Lends what lies on it, and is now and then counted, which takes long."""

    class Meta:
        celery_queue = "shelf"

    class State:
        reserved: list[str] = []
        log: list[str] = []

    requests = Queue(str)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("requests"):
            request = turn.queue.next("request", names=["requests"]).body
            if request == "count":
                turn.step("count", self.count, atomic=False, timeout=60)
            else:
                turn.step("release", self.release, request)

    @action
    def reserve(self, order: str) -> None:
        self.state.reserved.append(order)
        self.state.log.append(f"reserve {order}")

    def release(self, order: str) -> None:
        self.state.log.append(f"release {order}")
        self.state.reserved.remove(order)

    def count(self) -> None:
        outside.note("count", current_step().idempotency_key)
        if current_step().attempt == 1:
            time.sleep(30)


class PurchaseActor(Actor):
    """Reserves, is told to pay, and cannot."""

    orders = Queue(str)

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("purchase")
        ctx.step("reserve", self.reserve, rollback=self.release)
        ctx.queue.next("pay now", names=["orders"])
        ctx.step("pay", self.pay)

    def reserve(self) -> None:
        ShelfActor.get("main").reserve(self.key)

    def release(self, rollback, output) -> None:
        ShelfActor.get("main").send("requests", self.key)

    def pay(self) -> None:
        raise CriticalError("declined")
