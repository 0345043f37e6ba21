"""A type of which only so many may run, workers that drive its actors, and others that only hold them."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import Any

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.runtime.worker import Worker
from django_rivet.store import journal, runs
from django_rivet.store.slots import Cap

WORKER = Worker("a worker", may_pause=False, keep_alive=lambda lease: nullcontext())
LEASE_SECONDS = 1000
"""However slow the machine is: only the test's clock ends a lease."""


def capped(limit: int | None = 1) -> Any:
    """Of these so many may run; again under the same name, it is the class of the next deploy."""

    class Capped(Actor):
        class Meta:
            max_running = limit

        class State:
            done: list[str] = []

        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.step("begin", self.do, "begin", rollback=self.undo)
            for turn in ctx.loop("orders"):
                order = turn.queue.next("order", names=["orders"]).body
                turn.step("do", self.do, order)

        def do(self, order):
            if order == "bad":
                raise CriticalError("a bad order")
            self.state.done.append(order)

        def undo(self, rollback, output):
            self.state.done.append("undone")

    return Capped


def claimed(actor: Any, limit: int = 1, **options: Any) -> runs.Claim | None:
    """Another worker takes the actor, if it may."""
    return runs.claim(uuid.UUID(actor.id), "another", LEASE_SECONDS, cap=Cap(actor.type, limit), **options)


def let_go(claim: runs.Claim | None, status: str = "sleeping") -> None:
    assert claim is not None
    journal.release(claim.lease, journal.Release(status))


def driven(actor: Any) -> bool:
    return drive_once(uuid.UUID(actor.id), WORKER)


def hints(sweeper: Sweeper, heard: list[Any]) -> list[str]:
    """Keys of those whom one sweep hints at."""
    del heard[:]
    sweeper.sweep()
    ids = {str(row.pk): row.actor.key for row in WorkflowRun.objects.select_related("actor")}
    return [ids[str(actor_id)] for actor_id in heard]
