"""Actors with branches, that are looked at while they run."""

from __future__ import annotations

import time

from django_rivet import Actor, CriticalError, Queue, workflow

SOLD_OUT = "limousine"


class PartyActor(Actor):
    """Books a guide, and then all else at the same time; for the car it asks which one is wanted."""

    cars = Queue(str)

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("trip")
        ctx.step("guide", self.book, "guide", 0.2, rollback=self.cancel)
        ctx.join("bookings", {"flight": self.flight, "hotel": self.hotel, "car": self.car})

    def flight(self, branch):
        return branch.step("book", self.book, "flight", 0.9, atomic=False, rollback=self.cancel)

    def hotel(self, branch):
        offer = branch.step("offer", self.offer, atomic=False)
        return branch.step("book", self.book, offer, 0.3, atomic=False, rollback=self.cancel)

    def car(self, branch):
        wanted = branch.queue.next("which one", names=["cars"]).body
        return branch.step("book", self.book, wanted, 0.2, atomic=False, rollback=self.cancel)

    def offer(self) -> str:
        time.sleep(0.4)
        return "sea view"

    def book(self, what: str, seconds: float) -> str:
        time.sleep(seconds)
        if what == SOLD_OUT:
            raise CriticalError(f"no {what} left")
        return f"{what}-1"

    def cancel(self, rollback, what: str) -> None:
        time.sleep(0.1)


class TenderActor(Actor):
    """Reserves with two suppliers, and takes whoever says yes first."""

    north = Queue(str)
    south = Queue(str)

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("order")
        winner, _ = ctx.race("supplier", {"north": self.ask_north, "south": self.ask_south}, rollback_losers=True)
        ctx.step("confirm", self.confirm, winner)

    def ask_north(self, branch):
        branch.step("reserve", self.reserve, "north", rollback=self.give_back)
        return branch.queue.next("answer", names=["north"]).body

    def ask_south(self, branch):
        branch.step("reserve", self.reserve, "south", rollback=self.give_back)
        return branch.queue.next("answer", names=["south"]).body

    def reserve(self, where: str) -> str:
        return f"{where}-1"

    def give_back(self, rollback, reservation: str) -> None:
        time.sleep(0.1)

    def confirm(self, where: str) -> str:
        return where
