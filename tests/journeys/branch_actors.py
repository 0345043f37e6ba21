"""Actors with branches, that are looked at while they run."""

from __future__ import annotations

import time

from django_rivet import Actor, CriticalError, Queue, workflow

SOLD_OUT = "limousine"


class PartyActor(Actor):
    """Books a guide, and then all else at the same time; for the car it asks which one is wanted."""

    class State:
        booked: list[str] = []

    cars = Queue(str)

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("trip")
        ctx.step("guide", self.ask, "guide", 0.2, rollback=self.cancel)
        ctx.join("bookings", {"flight": self.flight, "hotel": self.hotel, "car": self.car})

    def flight(self, branch):
        return branch.step("book", self.ask, "flight", 0.9, atomic=False, rollback=self.cancel)

    def hotel(self, branch):
        offer = branch.step("offer", self.ask, "a room with a view", 0.4, atomic=False)
        return branch.step("book", self.ask, offer, 0.3, atomic=False, rollback=self.cancel)

    def car(self, branch):
        wanted = branch.queue.next("which one", names=["cars"]).body
        return branch.step("book", self.ask, wanted, 0.2, atomic=False, rollback=self.cancel)

    def ask(self, what: str, seconds: float) -> str:
        time.sleep(seconds)
        if what == SOLD_OUT:
            raise CriticalError(f"no {what} left")
        return f"{what}, booked"

    def cancel(self, rollback, what: str) -> None:
        time.sleep(0.1)
