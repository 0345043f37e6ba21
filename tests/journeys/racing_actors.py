"""A race of a primary whose body hangs against a time-out, and then the fallback."""

from __future__ import annotations

import time

from django_rivet import Actor, current_step, workflow
from tests.journeys import outside
from tests.journeys.models import Effect

HANGS_SECONDS = 25


class FallbackActor(Actor):
    """Its primary supplier hangs until long after the time-out; what it writes then must not land."""

    class State:
        ordered: list[str] = []

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("order")
        winner, _ = ctx.race("supplier", {"primary": self.primary, "timeout": self.timeout}, rollback_losers=True)
        if winner == "timeout":
            ctx.step("fallback", self.order, "fallback")
            ctx.step("deliver", self.deliver, atomic=False, timeout=60)
            ctx.step("note", self.order, "delivered")
        return winner

    def primary(self, branch):
        branch.step("reserve", self.order, "reserve", rollback=self.give_back)
        return branch.step("ask", self.hang, atomic=False, timeout=0)

    def timeout(self, branch):
        branch.sleep("patience", 2)

    def hang(self):
        outside.note("hanging", current_step().idempotency_key)
        time.sleep(HANGS_SECONDS)
        Effect.objects.create(name="late")
        outside.note("late", current_step().idempotency_key)

    def order(self, what: str) -> None:
        Effect.objects.create(name=what)
        self.state.ordered.append(what)

    def give_back(self, rollback, output) -> None:
        Effect.objects.create(name="give back")
        self.state.ordered.remove("reserve")

    def deliver(self) -> None:
        outside.note("begin", current_step().idempotency_key)
        if current_step().attempt == 1:
            # The first worker is killed here.
            time.sleep(60)
        outside.note("delivered", current_step().idempotency_key)
