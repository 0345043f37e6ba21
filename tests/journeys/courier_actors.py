"""A courier whose work shows whatever is lost, doubled, repeated or out of order."""

from __future__ import annotations

from django_rivet import Actor, Event, Queue, action, current_step, workflow
from tests.journeys import outside
from tests.journeys.models import Effect

HEAVY = "heavy"
"""This parcel is carried until a test opens the gate."""


class CourierActor(Actor):
    """Carries one parcel after another. Nothing is retried, so whatever fails shows."""

    class State:
        handed_over: list[str] = []
        greeted: list[str] = []

    parcels = Queue(str)
    arrived = Event(str)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("parcels"):
            parcel = turn.queue.next("wait", names=["parcels"]).body
            turn.step("carry", self.carry, parcel, atomic=False, timeout=100, max_retries=0)
            turn.step("hand-over", self.hand_over, parcel, max_retries=0)

    def carry(self, parcel: str) -> None:
        outside.note(f"lift:{self.key}:{parcel}", current_step().idempotency_key)
        if parcel == HEAVY:
            outside.await_gate()
        outside.note(f"carry:{self.key}:{parcel}", current_step().idempotency_key)

    def hand_over(self, parcel: str) -> None:
        Effect.objects.create(name=f"{self.key}:{parcel}")
        self.state.handed_over.append(parcel)
        self.arrived.broadcast(parcel)

    @action
    def greet(self, name: str) -> str:
        self.state.greeted.append(name)
        return f"hello {name}"
