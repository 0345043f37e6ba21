"""What a real worker does that no drive in a test's own process shows."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from celery import Celery
from django.db import connection

from django_rivet.runtime.bell import TASK
from django_rivet.runtime.handles import Handle
from tests.journeys.actors import LockingActor, ManyStepsActor, OrderActor, PatientActor, StubbornActor
from tests.journeys.conftest import LEASE_SECONDS, Configure, StartWorker
from tests.journeys.models import Effect
from tests.journeys.outside import effects, open_gate
from tests.journeys.workers import WorkerProcess, eventually, is_alive

STOPS_WITHIN, GOES_ON_WITHIN, ENDS_WITHIN = 3, 3, 8
"""Seconds. On a quiet machine a step, a tenth, and two that Celery takes."""

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]


def test_a_step_that_takes_longer_than_the_lease_is_not_doubled(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """The heartbeat keeps the actor while the body lives, though a second worker is idle."""
    workers = [start_worker("--concurrency=1", broker=redis_url) for _ in range(2)]
    actor = PatientActor.create("main")

    took = eventually(lambda: actor.status == "completed", 40, "the long step ends", workers[0].log)

    assert took > LEASE_SECONDS
    assert sum(effects(ledger)["begin"].values()) == 1
    assert actor.history()["long"].attempts == 1


def test_a_body_that_hangs_is_stopped_in_a_prefork_worker(start_worker: StartWorker, ledger: Path) -> None:
    """Its time-out ends it for good, and the worker goes on with other work. No broker is needed for that."""
    worker = start_worker("--concurrency=1", SWEEP_SECONDS=0.1)
    hanging = StubbornActor.create("main")
    other = OrderActor.create("main")
    other.send("orders", {"id": "1"})

    eventually(lambda: hanging.status == "completed", 30, "the hanging step is given up", worker.log)
    eventually(lambda: other.state.confirmed == ["1"], 10, "other work is done", worker.log)

    assert hanging.output == "timeout"
    assert set(effects(ledger)) == {"begin", "begin:1", "charge:1"}


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_without_a_broker_does_all_of_it(start_worker: StartWorker, ledger: Path, pool: str) -> None:
    """The embedded default: messages, retries and timers are found by the sweeper in the worker's own process."""
    worker = start_worker(f"--pool={pool}", "--concurrency=2")
    actors = [OrderActor.create(f"actor-{n}") for n in range(3)]
    for actor in actors:
        for number in range(3):
            actor.send("orders", {"id": f"{actor.key}-{number}", "fails": number == 1})

    eventually(lambda: all(len(actor.state.confirmed) == 2 for actor in actors), 30, "orders are confirmed", worker.log)
    assert [actor.state.rejected for actor in actors] == [[f"{actor.key}-1"] for actor in actors]


def test_pool_processes_that_are_killed_while_they_wait_for_work_hold_nobody_up(
    start_worker: StartWorker, ledger: Path
) -> None:
    """One after another, so that one of them held whatever lets a process take work; others take its place."""
    # Given a worker without a broker whose pool has worked and is idle
    worker = start_worker("--concurrency=2")
    _confirm_an_order("before", worker)
    main = psutil.Process(worker.process.pid)

    # When each of its processes is killed, from outside and alone
    for process in main.children():
        process.kill()
        process.wait(10)
        eventually(lambda: len(main.children()) == 2, 20, "it is replaced", worker.log)

    # Then work that comes in is done as before, by that worker
    for number in range(4):
        _confirm_an_order(f"after-{number}", worker)
    assert worker.process.poll() is None


def test_a_worker_that_is_killed_while_its_pool_starts_takes_the_pool_along(
    start_worker: StartWorker, configure: Configure
) -> None:
    """A process that has only just been forked has not asked the kernel yet to end it with its parent."""
    # Given a worker whose processes take a second to ask
    configure(ASKS_LATE)
    worker = start_worker("--concurrency=2")
    main = psutil.Process(worker.process.pid)
    eventually(lambda: len(main.children()) == 2, 30, "the pool starts", worker.log)
    pool = main.children()

    # When the worker is killed alone
    main.kill()

    # Then they end as well
    eventually(lambda: not any(is_alive(process) for process in pool), 10, "the pool has ended", worker.log)


ASKS_LATE = """
import time
from celery.signals import worker_init

@worker_init.connect(weak=False)
def delay(**kwargs):
    from celery import platforms

    ask = platforms.set_pdeathsig

    def ask_late(name):
        time.sleep(1)
        ask(name)

    platforms.set_pdeathsig = ask_late
"""


@pytest.mark.parametrize(("pool", "has_broker"), [("prefork", True), ("threads", True), ("prefork", False)])
def test_a_worker_that_is_told_to_stop_hands_its_actor_over_at_once(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str, has_broker: bool
) -> None:
    """At the next step, without waiting for the lease, the slice or the end; and no step runs twice.

    Where there is a broker the hint must be enough: no sweep comes in time.
    """
    # Given an actor in the middle of ten seconds of work, and another worker
    settings: dict[str, Any] = {"LEASE_SECONDS": 60, "SLICE_SECONDS": 60}
    if has_broker:
        settings |= {"SWEEP_SECONDS": 60, "broker": redis_url}
    first = start_worker(f"--pool={pool}", "--concurrency=1", **settings)
    actor = ManyStepsActor.create("main")
    if has_broker:
        _hint(actor, redis_url)
    eventually(lambda: "gate" in effects(ledger), 60, "the work begins", first.log)
    second = start_worker(f"--pool={pool}", "--concurrency=1", **settings)
    eventually(lambda: second.is_ready, 60, "the second worker is ready", second.log)
    open_gate(ledger)
    eventually(lambda: _steps_by_process(ledger), 60, "the first does steps", first.log)
    (its_process,) = _steps_by_process(ledger)

    # When the first is told to stop
    told_at = time.monotonic()
    first.process.terminate()
    took = eventually(lambda: first.process.poll() is not None, 60, "the first ends", first.log)
    eventually(lambda: len(_steps_by_process(ledger)) == 2, 60, "the second goes on", second.log)

    # Then it begins no more steps, and ends; the second goes on soon; and no step comes twice
    steps = _steps_by_process(ledger)
    last_of_first, first_of_second = max(steps.pop(its_process)), min(steps.popitem()[1])
    assert last_of_first - told_at < STOPS_WITHIN
    assert first_of_second - last_of_first < GOES_ON_WITHIN
    assert took < ENDS_WITHIN
    assert set(effects(ledger)["step"].values()) == {1}


def test_a_worker_that_is_frozen_with_locks_is_cut_off_and_cannot_write(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Another one does its step, once; when the frozen one thaws, its commit fails and it goes on with other work.

    PostgreSQL ends the session of the frozen one. SQLite has one writer at a time: there a frozen one stops everybody
    until it is killed.
    """
    # Given a worker that is frozen while it holds the actor's turn and a row lock
    first = start_worker("--concurrency=1", broker=redis_url)
    actor = LockingActor.create("main")
    eventually(lambda: "holding" in effects(ledger), 30, "the body holds its locks", first.log)
    os.killpg(first.process.pid, signal.SIGSTOP)
    second = start_worker("--concurrency=1", broker=redis_url)

    # When its lease is over, and the database has ended its session
    if connection.vendor == "sqlite":
        first.kill()
    eventually(lambda: actor.status == "completed", 40, "the other one does the step", second.log)

    # Then the step happened once, also after the frozen one thaws
    if connection.vendor == "postgresql":
        os.killpg(first.process.pid, signal.SIGCONT)
        other = OrderActor.create("other")
        second.stop()
        other.send("orders", {"id": "1"})
        eventually(lambda: other.state.confirmed == ["1"], 30, "the thawed one goes on with other work", first.log)
    assert actor.state.done == 1
    assert Effect.objects.filter(name="held").count() == 1


def _hint(actor: Handle, broker: str) -> None:
    """As somebody gives it who has that broker, which this process has not."""
    with Celery("of-a-test", broker=broker, set_as_current=False) as app:
        app.send_task(TASK, args=[str(actor.id)], ignore_result=True)


def _steps_by_process(ledger: Path) -> dict[str, list[float]]:
    """When each process has begun steps."""
    return {
        effect: sorted(float(moment) for moment in moments)
        for effect, moments in effects(ledger).items()
        if effect.startswith("begun-by:")
    }


def _confirm_an_order(key: str, worker: WorkerProcess) -> None:
    actor = OrderActor.create(key)
    actor.send("orders", {"id": key})
    eventually(lambda: actor.state.confirmed == [key], 20, f"the order {key} is confirmed", worker.log)
