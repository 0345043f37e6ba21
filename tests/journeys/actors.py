"""Actors that the journeys' workers drive."""

from __future__ import annotations

import os
import random
import time

from django_rivet import Actor, CriticalError, Queue, action, current_step, workflow
from tests.journeys import outside
from tests.journeys.models import Effect


class StockActor(Actor):
    class State:
        reserved: list[str] = []

    @action
    def reserve(self, order: str) -> str:
        self.state.reserved.append(order)
        return order

    @action
    def release(self, order: str) -> None:
        self.state.reserved.remove(order)


class OrderActor(Actor):
    """A saga per message over another actor, the ORM and the outside."""

    class State:
        confirmed: list[str] = []
        rejected: list[str] = []

    orders = Queue(dict)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("orders"):
            order = turn.queue.next("wait", names=["orders"]).body

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
                saga.step("ship", self.ship, order)
                saga.step("confirm", self.confirm, order["id"])

            if not turn.try_block("order", take, rollback=True).ok:
                turn.step("reject", self.reject, order["id"])

    def reserve(self, order: str) -> str:
        Effect.objects.create(name=f"reserve:{order}")
        return StockActor.get_or_create("main").reserve(order)

    def release(self, rollback, reservation: str) -> None:
        Effect.objects.create(name=f"release:{reservation}")
        StockActor.get_or_create("main").release(reservation)

    def charge(self, order: str) -> str:
        outside.note(f"begin:{order}", current_step().idempotency_key)
        time.sleep(random.random() * 0.05)
        outside.note(f"charge:{order}", current_step().idempotency_key)
        time.sleep(random.random() * 0.05)
        return f"charge-{order}"

    def refund(self, rollback, charge: str | None) -> None:
        outside.note(f"refund:{rollback.args[0]}", rollback.idempotency_key)

    def ship(self, order: dict) -> None:
        if order.get("fails"):
            raise CriticalError("cannot be shipped")

    def confirm(self, order: str) -> None:
        Effect.objects.create(name=f"confirm:{order}")
        self.state.confirmed.append(order)

    def reject(self, order: str) -> None:
        self.state.rejected.append(order)


class PatientActor(Actor):
    """Its one step takes longer than a lease."""

    @workflow
    def run(self, ctx):
        ctx.step("long", self.long, atomic=False, timeout=60)

    def long(self) -> None:
        outside.note("begin", current_step().idempotency_key)
        time.sleep(4)
        outside.note("end", current_step().idempotency_key)


class StubbornActor(Actor):
    """Its one step hangs, whatever is raised in it."""

    @workflow
    def run(self, ctx):
        return ctx.try_step("hangs", self.hangs, atomic=False, timeout=0.5).failure.kind

    def hangs(self) -> None:
        outside.note("begin", current_step().idempotency_key)
        for _ in range(300):
            try:
                time.sleep(0.1)
            except Exception:
                outside.note("swallowed", current_step().idempotency_key)
        outside.note("end", current_step().idempotency_key)


class LongChargeActor(Actor):
    """Charges for so long that a test can kill its worker meanwhile."""

    @workflow
    def run(self, ctx):
        ctx.step("reserve", self.reserve)
        ctx.step("charge", self.charge, atomic=False, timeout=60)
        return "done"

    def reserve(self) -> None:
        Effect.objects.create(name="reserve")

    def charge(self) -> None:
        outside.note("begin", current_step().idempotency_key)
        if current_step().attempt == 1:
            time.sleep(30)
        outside.note("charge", current_step().idempotency_key)


class ManyStepsActor(Actor):
    """Behind a gate two hundred short steps in a row. Each notes which process runs it, and when it begins."""

    @workflow
    def run(self, ctx):
        ctx.step("gate", self.gate, atomic=False, timeout=100)
        for number in range(200):
            ctx.step(f"step-{number}", self.short, atomic=False)

    def gate(self) -> None:
        outside.note("gate", current_step().idempotency_key)
        outside.await_gate()

    def short(self) -> None:
        outside.note("step", current_step().idempotency_key)
        outside.note(f"begun-by:{os.getpid()}", str(time.monotonic()))
        time.sleep(0.05)


class LockingActor(Actor):
    """Its first attempt stands still while it holds the actor's turn and a row of the ORM."""

    class State:
        done: int = 0

    @workflow
    def run(self, ctx):
        ctx.step("hold", self.hold, timeout=4)

    def hold(self) -> None:
        self.state.done += 1
        Effect.objects.create(name="held")
        outside.note("holding", current_step().idempotency_key)
        if current_step().attempt == 1:
            time.sleep(2)


from tests.journeys import (  # noqa: E402, F401 - makes their actors known to workers
    admin_actors,
    answering_actors,
    branch_actors,
    clock_actors,
    commit_actors,
    courier_actors,
    cross_actors,
    fairness_actors,
    field_actors,
    frozen_actors,
    hanging_actors,
    join_actors,
    limit_actors,
    operated_actors,
    racing_actors,
)
