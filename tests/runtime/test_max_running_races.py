"""``Meta.max_running`` under workers that claim at the same moment."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import connection, connections

from django_rivet import Actor, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.drive import drive
from django_rivet.runtime.worker import Worker
from django_rivet.store import runs
from django_rivet.store.slots import Cap
from django_rivet.testing import isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT = 3
THREADS = 8
PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def own_actors() -> Iterator[None]:
    with isolated_actors():
        yield


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """``work(n)`` in so many threads that begin at the same moment, each with a connection of its own."""
    start = threading.Barrier(THREADS, timeout=PATIENCE_SECONDS)

    def run(number: int) -> Any:
        try:
            connection.ensure_connection()
            start.wait()
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def repeatable_read() -> None:
    """The isolation that a project may have chosen: what a transaction counts is as old as its first statement."""
    if connection.vendor == "postgresql":
        from psycopg import IsolationLevel

        connection.connection.isolation_level = IsolationLevel.REPEATABLE_READ


@pytest.mark.parametrize("isolate", [lambda: None, repeatable_read], ids=["default", "repeatable read"])
def test_claims_at_the_same_moment_never_take_more_than_there_are(isolate: Callable[[], None]) -> None:
    """Each claims an actor of its own: without a lock all of them would find the slots free."""

    class Capped(Actor):
        class Meta:
            max_running = LIMIT

        @workflow
        def run(self, ctx): ...

    cap = Cap(Capped.definition.type_name, LIMIT)
    ids = [uuid.UUID(Capped.create(str(n)).id) for n in range(THREADS)]

    def claim(number: int) -> bool:
        isolate()
        return runs.claim(ids[number], f"worker {number}", 600, cap=cap, in_order=False) is not None

    for _ in range(10):
        assert sum(in_threads(claim)) == LIMIT
        assert WorkflowRun.objects.filter(holder__isnull=False).count() == LIMIT
        WorkflowRun.objects.update(holder=None, lease_until=None)


def test_many_workers_do_all_the_work_with_all_slots_and_no_more(settings: Any) -> None:
    """Each body waits until every slot is taken: so all are used, and none waits for ever."""
    settings.RIVET = {**settings.RIVET, "LEASE_SECONDS": 600}
    together = threading.Barrier(LIMIT, timeout=PATIENCE_SECONDS)
    at_work: set[str] = set()
    most: list[int] = []
    done: list[str] = []
    lock = threading.Lock()

    class Capped(Actor):
        class Meta:
            max_running = LIMIT

        @workflow
        def run(self, ctx):
            ctx.step("work", self.work, atomic=False, timeout=0, max_retries=0)

        def work(self):
            with lock:
                at_work.add(self.key)
                most.append(len(at_work))
            together.wait()
            with lock:
                at_work.discard(self.key)
                done.append(self.key)

    keys = [f"{n:02}" for n in range(LIMIT * 4)]
    for key in keys:
        Capped.create(key)

    def work(number: int) -> None:
        worker = Worker(f"worker {number}", may_pause=False, keep_alive=lambda lease: nullcontext())
        while WorkflowRun.objects.exclude(status__in=["completed", "failed"]).exists():
            for due in runs.due_actors(100):
                drive(due.actor_id, worker)

    in_threads(work)

    assert sorted(done) == keys
    assert max(most) == LIMIT
    assert [sorted(done[n : n + LIMIT]) for n in range(0, len(keys), LIMIT)] == [
        keys[n : n + LIMIT] for n in range(0, len(keys), LIMIT)
    ], "in the order they became due"
