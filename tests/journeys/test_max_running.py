"""``max_running`` over several real workers, one of which is killed while it holds a slot."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.journeys.conftest import StartWorker
from tests.journeys.limit_actors import BystanderActor, TwoAtOnceActor, gate
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

QUICK = {"LEASE_SECONDS": 6.0, "SWEEP_SECONDS": 0.2}


@dataclass
class Stay:
    """One body, from its beginning to its end, or to the death of its process."""

    pid: int
    began: float
    ended: float


def stays(ledger: Path, now: float) -> dict[str, Stay]:
    """By actor and process; what has not ended lasts until ``now``."""
    stamped = {effect: float(next(iter(keys))) for effect, keys in effects(ledger).items()}
    return {
        effect: Stay(int(effect.rpartition(":")[2]), at, stamped.get(effect.replace("begin:", "end:"), now))
        for effect, at in stamped.items()
        if effect.startswith("begin:")
    }


def at_the_same_time(found: list[Stay]) -> int:
    """The most bodies that ran at one moment."""
    return max(sum(other.began <= stay.began < other.ended for other in found) for stay in found)


def test_two_at_once_over_two_workers_and_a_death(start_worker: StartWorker, ledger: Path, redis_url: str) -> None:
    """Never more than two run; the slots of the dead worker go to the next ones, and all of them end."""
    # Given two workers with room for four, and six actors of which two may run
    workers = [start_worker("--concurrency=2", broker=redis_url, **QUICK) for _ in range(2)]
    actors = [TwoAtOnceActor.create(f"{n}") for n in range(6)]
    eventually(lambda: len(stays(ledger, 0)) == 2, 60, "two begin", workers[0].log)

    # And both have room for others meanwhile
    eventually(lambda: all(worker.is_ready for worker in workers), 60, "both are there", workers[1].log)
    bystander = BystanderActor.create("main")
    eventually(lambda: bystander.status == "completed", 60, "somebody has time", workers[0].log)
    first = stays(ledger, 0)
    assert {name.split(":")[1] for name in first} == {"0", "1"}

    # When one that holds a slot is killed
    pid = next(iter(first.values())).pid
    [doomed] = [worker for worker in workers if worker.process.pid == os.getpgid(pid)]
    lost = [stay for stay in first.values() if os.getpgid(stay.pid) == doomed.process.pid]
    killed_at = time.time()
    doomed.kill()

    # Then the next in the line gets it when the lease is over
    alive = next(worker for worker in workers if worker is not doomed)
    eventually(lambda: len(stays(ledger, 0)) > 2, 60, "the slot is used again", alive.log)

    # And as soon as bodies end, one after another is driven, also what the dead worker left
    gate(ledger).touch()
    eventually(lambda: {actor.status for actor in actors} == {"completed"}, 60, "all end", alive.log)
    found = stays(ledger, killed_at)
    assert len(found) == len(actors) + len(lost)
    assert at_the_same_time(list(found.values())) == 2
