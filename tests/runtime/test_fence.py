"""A worker that has lost the actor cannot write: the database refuses its commit."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from django_rivet import Actor, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.drive import drive
from django_rivet.runtime.worker import this_worker
from django_rivet.store.runs import claim
from django_rivet.testing import advance, isolated_actors
from django_rivet.testing import drive as drive_without_heartbeat
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


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_each_commit_renews_the_lease(atomic: bool) -> None:
    """An actor that gets on is not lost while nobody's heart beats for it: the lease begins anew with each record."""
    with isolated_actors():

        class Busy(Actor):
            @workflow
            def run(self, ctx):
                for n in range(3):
                    ctx.step(f"step {n}", self.look, atomic=atomic)

            def look(self):
                leases.append(WorkflowRun.objects.get(actor_id=uuid.UUID(self.id)).lease_until)
                advance(4)

        leases: list[datetime] = []
        busy = Busy.create("main")

        assert drive_without_heartbeat(busy) == "completed"

    assert [later - earlier > timedelta(seconds=2) for earlier, later in pairwise(leases)] == [True, True]
