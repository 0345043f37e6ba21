"""A worker that has lost the actor cannot write: the database refuses its commit."""

from __future__ import annotations

import uuid

import pytest

from django_rivet import Actor, workflow
from django_rivet.runtime.drive import drive
from django_rivet.runtime.worker import this_worker
from django_rivet.store.runs import claim
from django_rivet.testing import advance, isolated_actors
from tests.journeys.models import Effect

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_a_worker_whose_lease_was_taken_over_writes_nothing_more(atomic: bool) -> None:
    """The body comes back late: neither its record nor its atomic effect lands, and the new owner is not disturbed."""
    with isolated_actors():

        class Slow(Actor):
            class State:
                seen: list[str] = []

            @workflow
            def run(self, ctx):
                ctx.step("slow", self.slow, atomic=False, timeout=0) if not atomic else ctx.step("slow", self.slow)
                ctx.step("after", self.after)

            def slow(self):
                if not taken:
                    # While this worker stands still, its lease runs out and another one claims the actor.
                    advance(60)
                    taken.append(claim(uuid.UUID(self.id), "the other", 10))
                if atomic:
                    Effect.objects.create(name="slow")
                return "late"

            def after(self):
                self.state.seen.append("after")

        taken: list[object] = []
        actor = Slow.create("main")

        drive(uuid.UUID(actor.id), this_worker())

        assert taken[0] is not None
        assert len(actor.history()) == 0
        assert Effect.objects.count() == 0
        assert actor.state.seen == []

        advance(60)
        drive(uuid.UUID(actor.id), this_worker())

        assert actor.status == "completed"
        assert actor.state.seen == ["after"]
        assert Effect.objects.count() == (1 if atomic else 0)
