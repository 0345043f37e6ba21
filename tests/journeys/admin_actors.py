"""Actors that operators have work with."""

from __future__ import annotations

import time

from django_rivet import Actor, CriticalError, Queue, workflow
from tests.journeys.models import Effect

A_WHILE = 0.2
"""Seconds: a time line is to have something to draw."""


def answers(partner: str) -> str:
    """The name of the effect by which a test says that a partner answers again."""
    return f"{partner} answers"


class TripActor(Actor):
    """Books a flight and a hotel, gets no car, and cannot cancel what it has booked before its partners answer."""

    class State:
        booked: list[str] = []

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("trip")
        ctx.step("flight", self.book, "flight", rollback=self.cancel)
        ctx.step("hotel", self.book, "hotel", rollback=self.cancel)
        ctx.step("car", self.car, max_retries=2, retry_backoff_base=0.25)

    def book(self, what: str) -> str:
        time.sleep(A_WHILE)
        self.state.booked.append(what)
        return what

    def cancel(self, rollback, what: str) -> None:
        time.sleep(A_WHILE)
        if not Effect.objects.filter(name=answers(what)).exists():
            raise CriticalError(f"the {what} does not answer")
        self.state.booked.remove(what)

    def car(self) -> None:
        raise ConnectionError("no car to be had")


class GuestBookActor(Actor):
    """Writes down who has come, for ever."""

    class State:
        guests: list[str] = []

    guests = Queue(str)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("guests"):
            guest = turn.queue.next("wait", names=["guests"]).body
            turn.step("write", self.write, guest)

    def write(self, guest: str) -> None:
        self.state.guests.append(guest)
