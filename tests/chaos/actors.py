"""What the workers drive under fire. Each body writes where no transaction can undo it; atomic ones write rows, too."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from django_rivet import Actor, CriticalError, Queue, action, current_step, workflow
from tests.chaos.ledger import PlannedError, body
from tests.journeys.models import Effect


def write_row(name: str) -> None:
    """No constraint keeps it from coming twice: a double is seen."""
    Effect.objects.create(name=f"{name} {current_step().idempotency_key}")


class StockActor(Actor):
    """Many orders meet here."""

    class State:
        reserved: list[str] = []

    @action
    def reserve(self, order: str) -> str:
        self.state.reserved.append(order)
        return order

    @action
    def release(self, order: str) -> None:
        self.state.reserved.remove(order)


class TallyActor(Actor):
    """Hears of every confirmed order."""

    class State:
        heard: list[list[Any]] = []

    notes = Queue(list)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("notes"):
            turn.step("hear", self.hear, turn.queue.next("wait", names=["notes"]).body)

    def hear(self, note: list[Any]) -> None:
        self.state.heard.append(note)


class OrderActor(Actor):
    """A saga per message: over a stock, the ORM, the outside, and a message to somebody else."""

    class State:
        seen: list[list[int]] = []
        confirmed: list[str] = []
        rejected: list[str] = []

    orders = Queue(dict)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("orders"):
            order = turn.queue.next("wait", names=["orders"]).body
            turn.step("see", self.see, order)

            def take(saga, order=order):
                saga.rollback_checkpoint("order")
                saga.step("reserve", self.reserve, order, rollback=self.release)
                saga.step(
                    "charge",
                    self.charge,
                    order,
                    atomic=False,
                    rollback=self.refund,
                    rollback_when="attempted",
                    rollback_atomic=False,
                )
                saga.step("pack", self.pack, order, rollback=self.unpack)
                if order["nap"]:
                    saga.sleep("nap", order["nap"])
                saga.step("label", self.label, order, atomic=False)
                saga.step("ship", self.ship, order)
                saga.step("confirm", self.confirm, order)

            if not turn.try_block("order", take, rollback=True).ok:
                turn.step("reject", self.reject, order)

    def see(self, order: dict[str, Any]) -> None:
        self.state.seen.append([order["sender"], order["number"]])

    def reserve(self, order: dict[str, Any]) -> str:
        self._atomic("reserve", order)
        return StockActor.get_or_create(order["stock"]).reserve(order["id"])

    def release(self, rollback: Any, reservation: str) -> None:
        order = rollback.args[0]
        self._atomic("release", order)
        StockActor.get_or_create(order["stock"]).release(reservation)

    def charge(self, order: dict[str, Any]) -> None:
        self._outside("charge", order, planned=order["charge_flakes"])

    def refund(self, rollback: Any, charge: None) -> None:
        self._outside("refund", rollback.args[0])

    def pack(self, order: dict[str, Any]) -> None:
        self._atomic("pack", order, planned=order["pack_flakes"])

    def unpack(self, rollback: Any, output: None) -> None:
        self._atomic("unpack", rollback.args[0])

    def label(self, order: dict[str, Any]) -> None:
        self._outside("label", order)

    def ship(self, order: dict[str, Any]) -> None:
        if order["fails"]:
            raise CriticalError("cannot be shipped")

    def confirm(self, order: dict[str, Any]) -> None:
        self._atomic("confirm", order)
        self.state.confirmed.append(order["id"])
        TallyActor.get_or_create("main").send("notes", [self.key, len(self.state.confirmed), order["id"]])

    def reject(self, order: dict[str, Any]) -> None:
        self._atomic("reject", order)
        self.state.rejected.append(order["id"])

    def _atomic(self, name: str, order: dict[str, Any], planned: int = 0) -> None:
        with body(f"order:{order['id']}/{name}"):
            write_row(f"order:{order['id']}/{name}")
            time.sleep(order["takes"] / 4)
            if current_step().attempt <= planned:
                raise PlannedError(f"{name} fails {planned} times")

    def _outside(self, name: str, order: dict[str, Any], planned: int = 0) -> None:
        with body(f"order:{order['id']}/{name}"):
            time.sleep(order["takes"])
            if current_step().attempt <= planned:
                raise PlannedError(f"{name} fails {planned} times")


class TripActor(Actor):
    """One saga per actor: it ends well, fails until somebody repairs it, or is cancelled on the way.

    Its legs are booked at the same time, and paying has no need to hurry.
    """

    class State:
        plan: dict[str, Any] = {}
        repaired: bool = False

    def create_state(self, input):
        return {"plan": input}

    @action
    def repair(self) -> None:
        self.state.repaired = True

    @workflow
    def run(self, ctx):
        plan = ctx.step("look", self.look)
        ctx.rollback_checkpoint("trip")
        ctx.join("legs", {f"leg-{leg}": partial(self.take_leg, leg) for leg in range(plan["legs"])})
        ctx.race("paid", {"pay": self.settle, "limit": lambda branch: branch.sleep("limit", 3600)})
        ctx.sleep("nap", plan["nap"])
        ctx.step("board", self.board)
        ctx.step("arrive", self.arrive)

    def take_leg(self, leg: int, branch: Any) -> None:
        branch.step("book", self.book, leg, rollback=self.unbook)

    def settle(self, branch: Any) -> None:
        branch.step(
            "pay", self.pay, atomic=False, rollback=self.repay, rollback_when="attempted", rollback_atomic=False
        )

    def look(self) -> dict[str, Any]:
        return self.state.plan

    def book(self, leg: int) -> None:
        self._atomic(f"book-{leg}")

    def unbook(self, rollback: Any, output: None) -> None:
        self._atomic(f"unbook-{rollback.args[0]}")

    def pay(self) -> None:
        with body(f"trip:{self.key}/pay"):
            time.sleep(0.05)

    def repay(self, rollback: Any, output: None) -> None:
        with body(f"trip:{self.key}/repay"):
            time.sleep(0.02)

    def board(self) -> None:
        if self.state.plan["end"] == "fail" and not self.state.repaired:
            raise CriticalError("no seat")

    def arrive(self) -> None:
        self._atomic("arrive")

    def _atomic(self, name: str) -> None:
        with body(f"trip:{self.key}/{name}"):
            write_row(f"trip:{self.key}/{name}")
            time.sleep(0.01)
