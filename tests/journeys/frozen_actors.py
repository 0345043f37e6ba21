"""An actor whose worker is frozen while a body runs that holds no lock."""

from __future__ import annotations

from django_rivet import Actor, Event, current_step, workflow
from tests.journeys import outside
from tests.journeys.models import Effect


class FrozenBodyActor(Actor):
    """The first attempt of its first step stands at the gate; what each attempt brings about bears its number."""

    class State:
        done: list[int] = []

    arrived = Event(int)

    @workflow
    def run(self, ctx):
        attempt = ctx.step("outside", self.outside, atomic=False, timeout=100)
        ctx.step("inside", self.inside, attempt)
        return attempt

    def outside(self) -> int:
        attempt = current_step().attempt
        outside.note(f"begin:{attempt}", current_step().idempotency_key)
        if attempt == 1:
            outside.await_gate()
        self.arrived.broadcast(attempt)
        outside.note(f"end:{attempt}", current_step().idempotency_key)
        return attempt

    def inside(self, attempt: int) -> None:
        Effect.objects.create(name=f"inside:{attempt}")
        self.state.done.append(attempt)
