"""What was reported of other engines, tried on this one: timers, kills and restarts."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from django_rivet.models import WorkflowRun
from django_rivet.runtime.handles import Handle
from tests.journeys.actors import PatientActor
from tests.journeys.conftest import Configure, StartWorker
from tests.journeys.field_actors import (
    ClerkActor,
    CutOffActor,
    NapActor,
    OnceActor,
    SecondTryActor,
    ShiftActor,
)
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.workers import WorkerProcess, eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

QUICK = {"LEASE_SECONDS": 1.0, "SWEEP_SECONDS": 0.2}
LATE_SECONDS = 2.0
"""One sweep, and what a busy machine takes."""


def all_wait(actors: Sequence[Handle]) -> bool:
    """All have begun, and wait for the clock."""
    return {actor.status for actor in actors} == {"sleeping"} and all(actor.wake_at for actor in actors)


def when(ledger: Path, effect: str) -> list[float]:
    """The times at which that happened."""
    return sorted(float(at) for at in effects(ledger).get(effect, {}))


def test_a_timer_that_outlasts_the_visibility_timeout_fires_once(
    start_worker: StartWorker, configure: Configure, ledger: Path, redis_url: str
) -> None:
    """No message waits along with a nap or a backoff, so a broker that hands messages out again doubles nothing."""
    # Given a broker that gives up on a worker after a second, acknowledgements that come late, a worker in a long step
    configure(
        "CELERY_BROKER_TRANSPORT_OPTIONS = {'visibility_timeout': 1}\n"
        "CELERY_TASK_ACKS_LATE = CELERY_TASK_REJECT_ON_WORKER_LOST = True"
    )
    first = start_worker("--concurrency=2", broker=redis_url, **QUICK)
    patient = PatientActor.create("main")
    eventually(lambda: "begin" in effects(ledger), 30, "the long step begins", first.log)

    # And a nap and a retry, on it or on a second worker
    second = start_worker("--concurrency=1", broker=redis_url, **QUICK)
    nap, retry = NapActor.create("nap"), SecondTryActor.create("retry")
    eventually(lambda: all_wait([nap, retry]), 30, "both wait", first.log)
    due = {"charge:nap": nap.wake_at.timestamp(), "attempt-2:retry": retry.wake_at.timestamp()}

    # When the second is killed and started again, which makes the broker hand out what is not acknowledged
    second.kill()
    second = start_worker("--concurrency=1", broker=redis_url, **QUICK)

    # Then each goes on once, not early and not late
    everybody = [patient, nap, retry]
    eventually(lambda: {actor.status for actor in everybody} == {"completed"}, 20, "all end", second.log)
    for effect, due_at in due.items():
        [at] = when(ledger, effect)
        assert due_at <= at < due_at + LATE_SECONDS
    assert [entry.kind for entry in nap.history()].count("sleep") == 1
    assert (retry.history()["charge"].attempts, patient.history()["long"].attempts) == (2, 1)
    assert effects(ledger)["begin"].total() == 1


def test_due_times_outlive_all_workers_and_the_broker_s_memory(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Timers and retries that came due while nobody was there are found by the first worker that comes, once each."""
    # Given twenty naps and a retry
    worker = start_worker("--concurrency=2", broker=redis_url, **QUICK)
    naps = [NapActor.create(f"nap-{n}") for n in range(20)]
    retry = SecondTryActor.create("retry")
    eventually(lambda: all_wait([*naps, retry]), 30, "all wait", worker.log)
    due = {actor.key: actor.wake_at for actor in [*naps, retry]}

    # When the worker is killed, the broker forgets everything, and the due times pass
    worker.kill()
    with redis.Redis.from_url(redis_url) as broker:
        broker.flushdb()
    assert {actor.key: actor.wake_at for actor in [*naps, retry]} == due
    last = max(due.values()).timestamp()
    eventually(lambda: time.time() > last, 10, "all are due")
    assert "charge:nap-0" not in effects(ledger)
    worker = start_worker("--concurrency=2", broker=redis_url, **QUICK)
    eventually(lambda: worker.is_ready, 30, "a worker is back", worker.log)

    # Then all of it is done within a sweep and the time that it takes, once
    eventually(lambda: {each.status for each in [*naps, retry]} == {"completed"}, 10, "all wake", worker.log)
    assert {len(when(ledger, f"charge:{actor.key}")) for actor in naps} == {1}
    assert (len(when(ledger, "attempt-1:retry")), len(when(ledger, "attempt-2:retry"))) == (1, 1)
    assert Effect.objects.count() == len(naps)


def test_a_broker_that_forgets_everything_delays_no_timer(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """The worker that goes on finds what is due in the database, and its hints still arrive."""
    worker = start_worker("--concurrency=2", broker=redis_url, **QUICK)
    naps = [NapActor.create(f"nap-{n}") for n in range(20)]
    eventually(lambda: all_wait(naps), 30, "all sleep", worker.log)
    due = {actor.key: actor.wake_at.timestamp() for actor in naps}

    with redis.Redis.from_url(redis_url) as broker:
        broker.flushdb()

    eventually(lambda: {actor.status for actor in naps} == {"completed"}, 20, "all wake", worker.log)
    for key, due_at in due.items():
        [at] = when(ledger, f"charge:{key}")
        assert due_at <= at < due_at + LATE_SECONDS


POINTS = ("claimed", "begun", "charged", "recorded")


@pytest.mark.parametrize(
    "acknowledges", ["", "CELERY_TASK_ACKS_LATE = CELERY_TASK_REJECT_ON_WORKER_LOST = True"], ids=["early", "late"]
)
def test_a_killed_process_of_the_pool_loses_nothing_however_it_acknowledges(
    start_worker: StartWorker, configure: Configure, ledger: Path, redis_url: str, acknowledges: str
) -> None:
    """Child or parent, at any point: the run ends well, and only an effect that has no record yet may come twice."""
    # Given actors whose child process dies at a point, and others that stand there until their parent is killed
    configure(acknowledges)
    worker = start_worker("--concurrency=8", broker=redis_url, **QUICK)
    dying = [CutOffActor.create((point, "itself")) for point in POINTS]
    standing = [CutOffActor.create((point, "parent")) for point in POINTS]
    everybody = {f"at:{actor.key}" for actor in [*dying, *standing]}
    eventually(lambda: everybody <= set(effects(ledger)), 30, "all are at their point", worker.log)

    # When the parent is killed, and a supervisor starts the worker again
    eventually(lambda: {actor.status for actor in dying} == {"completed"}, 20, "the dead are replaced", worker.log)
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait(10)
    successor = start_worker("--concurrency=2", broker=redis_url, **QUICK)

    # Then all end well, and no process is left over
    try:
        eventually(lambda: {a.status for a in standing} == {"completed"}, 20, "all end", successor.log)
        eventually(lambda: not living(worker.process.pid), 10, "the orphans end", worker.log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(worker.process.pid, signal.SIGKILL)
    keys = [actor.key for actor in [*dying, *standing]]
    assert sorted(Effect.objects.values_list("name", flat=True)) == sorted(
        f"{step}:{key}" for step in "ac" for key in keys
    )
    charges = {key: effects(ledger)[f"b:{key}"] for key in keys}
    assert {key: dict(c) for key, c in charges.items() if len(c) != 1} == {}, "one idempotency key each"
    assert {key for key, c in charges.items() if c.total() > 1} <= {"charged/itself", "charged/parent"}
    assert CutOffActor.get(("charged", "itself")).history()["b"].attempts == 2


def living(group: int) -> list[str]:
    """The processes of that group that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state not in "ZX":
                found.append(stat.parent.name)
    return found


def test_a_worker_that_comes_back_under_its_name_keeps_nothing_from_being_taken_over(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Ownership is a lease and not a name, also one that was wiped by hand; what waits behind keeps its order."""
    # Given a worker that stands in the middle of the first of four letters
    first = start_worker("--concurrency=4", "-n", "same@%h", broker=redis_url, **QUICK)
    clerks = [ClerkActor.create((point, lease)) for point in ("claimed", "recorded") for lease in ("stays", "wiped")]
    for clerk in clerks:
        clerk.send("letters", "1")
    eventually(lambda: len(effects(ledger)) == 4, 30, "all stand", first.log)
    for clerk in clerks:
        for letter in "234":
            clerk.send("letters", letter)

    # When it is killed and comes back at once under the same name, and somebody wipes leases by hand
    first.kill()
    WorkflowRun.objects.filter(actor__key__endswith="wiped").update(holder=None, lease_until=None)
    again = start_worker("--concurrency=4", "-n", "same@%h", broker=redis_url, **QUICK)

    # Then all letters are worked on, once and in order
    def filed() -> int:
        return Effect.objects.filter(name__startswith="file").count()

    eventually(lambda: filed() == 16, 20, "all letters are filed", again.log)
    for clerk in clerks:
        order = list(
            Effect.objects.filter(name__contains=f":{clerk.key}:").order_by("pk").values_list("name", flat=True)
        )
        assert order == [f"{step}:{clerk.key}:{letter}" for letter in "1234" for step in ("read", "file")]


def test_a_worker_that_dies_in_its_sweep_leaves_the_next_one_no_trace(
    start_worker: StartWorker, configure: Configure, child_environment: dict[str, str], ledger: Path, redis_url: str
) -> None:
    """Between finding what is due and giving hints for it: the sweep keeps nothing, so nothing needs recovery."""
    actors = [OnceActor.create(f"once-{n}", n) for n in range(3)]
    ours = dict(child_environment)
    configure(DIES_IN_ITS_SWEEP)
    dead = start_worker("--concurrency=1", broker=redis_url, **QUICK)
    assert dead.process.wait(30) == -signal.SIGKILL
    child_environment.clear()
    child_environment.update(ours)

    worker = start_worker("--concurrency=1", broker=redis_url, **QUICK)

    eventually(lambda: {actor.status for actor in actors} == {"completed"}, 30, "all are found", worker.log)
    assert list(effects(ledger)["begin"].values()) == [1, 1, 1]


DIES_IN_ITS_SWEEP = """
import os, signal
from celery.signals import worker_init

@worker_init.connect(weak=False)
def arm(**kwargs):
    from django_rivet.store import runs

    find = runs.due_actors

    def find_and_die(limit):
        if find(limit):
            os.kill(os.getpid(), signal.SIGKILL)
        return []

    runs.due_actors = find_and_die
"""


def begins(ledger: Path) -> Counter[str]:
    """How often each piece of work began."""
    return Counter({effect: keys.total() for effect, keys in effects(ledger).items() if effect.startswith("begin:")})


def is_on_record(begun: str, shifts: Sequence[Handle]) -> bool:
    _, name, key = begun.split(":")
    (shift,) = (each for each in shifts if each.key == key)
    return any(entry.name == name and entry.status == "completed" for entry in shift.history())


def at_work(worker: WorkerProcess, ledger: Path, so_far: int) -> None:
    eventually(lambda: begins(ledger).total() > so_far, 30, "the worker is at work", worker.log)


RESTARTS = 5
GRACE_SECONDS = 1.0
"""Half of what a step takes."""


@pytest.mark.timeout(300)
def test_a_storm_of_restarts_with_a_short_grace_costs_no_retries(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Steps that may not be retried still end well when deploys cut them off: a killed worker is not their failure."""
    # Given ten actors
    shifts = [ShiftActor.create(f"shift-{n}") for n in range(10)]

    # When five workers in a row, more than MAX_TAKEOVERS allows, are told to stop, and killed before a step can end
    settings = {**QUICK, "MAX_TAKEOVERS": 2}
    hit: Counter[str] = Counter()
    for _ in range(RESTARTS):
        before = begins(ledger)
        worker = start_worker("--concurrency=5", broker=redis_url, **settings)
        at_work(worker, ledger, before.total())
        worker.process.terminate()
        time.sleep(GRACE_SECONDS)
        worker.kill()
        hit.update(begun for begun in begins(ledger) - before if not is_on_record(begun, shifts))
    last = start_worker("--concurrency=5", broker=redis_url, **settings)

    # Then all complete; a step began once more for each kill that hit it, and ended once
    eventually(lambda: all(s.status in ("completed", "failed") for s in shifts), 120, "all end", last.log)
    assert [(s.key, str(s.error)) for s in shifts if s.status != "completed"] == []
    seen = effects(ledger)
    assert len([effect for effect in seen if effect.startswith("end:")]) == 30
    assert {effect: times for effect, times in begins(ledger).items() if times > 1 + hit[effect]} == {}
    assert begins(ledger).total() > 30, "the kills did hit steps"
