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
