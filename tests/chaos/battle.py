"""One battle from the first worker to the verdict."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import redis
from django.conf import settings
from django.db import connection

from tests.chaos import ledger, plan
from tests.chaos.apps import LATENCY
from tests.chaos.crew import Crew
from tests.chaos.fire import Arsonist
from tests.chaos.load import Load
from tests.chaos.recovery import Recoveries
from tests.chaos.report import accusation, report
from tests.chaos.verdict import Fault, judge

STUCK_SECONDS = 120.0
"""Without a single line in the ledger: then it is stuck, and not merely slow."""
SETTLES_SECONDS = 360.0
READY_SECONDS = 90.0
LOOK_SECONDS = 0.05
LATENCY_SECONDS = 0.01

POOLS = {
    "postgresql": [("prefork", 2), ("prefork", 2), ("prefork", 2), ("threads", 4)],
    "sqlite": [("prefork", 2), ("threads", 2)],
}

LEASES = {"postgresql": plan.LEASE_SECONDS, "sqlite": 3 * plan.LEASE_SECONDS}
"""On SQLite a heartbeat has to wait for whoever writes, and the lock is not given out in turn."""

RIVET = {
    "SLICE_SECONDS": 1.0,
    # No step is to be blamed for workers that we kill.
    "MAX_TAKEOVERS": 1_000_000,
    "STEP_DEFAULTS": {
        "timeout": plan.STEP_SECONDS,
        "retry_on_timeout": True,
        "max_retries": 1000,
        "retry_backoff_base": 0.05,
        "retry_backoff_max": 0.5,
    },
}


def battle(seed: int, seconds: float, folder: Path, broker: str) -> tuple[str, int]:
    """The report, and the exit code: 0 where every promise held."""
    with database() as name, redis.Redis.from_url(broker, socket_timeout=5) as client:
        environment = {
            **os.environ,
            "REDIS_URL": broker,
            "RIVET_TEST_DATABASE_NAME": name,
            "RIVET_TEST_SETTINGS": json.dumps({**RIVET, "LEASE_SECONDS": LEASES[connection.vendor]}),
            ledger.VARIABLE: str(folder / "ledger"),
            LATENCY: str(LATENCY_SECONDS),
        }
        crew = Crew(POOLS[connection.vendor], environment, folder)
        try:
            return _battle(seed, seconds, folder, crew, client)
        finally:
            crew.kill_all()


@contextmanager
def database() -> Iterator[str]:
    """A database of our own; gives its name."""
    before = settings.DATABASES["default"]["NAME"]
    name = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield name
    finally:
        connection.creation.destroy_test_db(before, verbosity=0)


# Below: how it is done ---------------------------------------------------------------------------


def _battle(seed: int, seconds: float, folder: Path, crew: Crew, client: redis.Redis) -> tuple[str, int]:
    recoveries = Recoveries()
    arsonist = Arsonist(crew, client, recoveries)
    load = Load(seed)
    crew.start()
    _wait(lambda: len(crew.able()) == len(crew.pools), READY_SECONDS, crew.tend)
    fires = plan.fires(seed, seconds, postgresql=connection.vendor == "postgresql")
    with load.running():
        began = time.monotonic()
        for fire in fires:
            _wait(partial(_is_past, began + fire.at), seconds, arsonist.tend)
            arsonist.strike(fire)
        _wait(partial(_is_past, began + seconds), seconds, arsonist.tend)
    arsonist.cease()
    ceased = time.monotonic()
    _settle(load, arsonist, folder / "ledger")
    settled_in = time.monotonic() - ceased
    unsettled = load.unsettled()
    load.dismiss_operator()
    _wait(lambda: not recoveries.waiting, 1, lambda: None)
    recoveries.stop()
    crew.stop()

    verdict = judge(load, ledger.read(folder / "ledger"), crew.hits, unsettled)
    verdict.faults += [Fault("other than planned", what) for what in crew.died]
    head = f"chaos, seed {seed}: {seconds:g} s on {connection.vendor}, {len(crew.pools)} workers"
    said = [report(head, arsonist, load, recoveries, verdict, settled_in)]
    said.append(accusation(seed, crew, verdict, folder) if verdict.faults else "every promise held")
    return "\n\n".join(said) + "\n", 1 if verdict.faults else 0


def _settle(load: Load, arsonist: Arsonist, written: Path) -> None:
    until = time.monotonic() + SETTLES_SECONDS
    size, grew = 0, time.monotonic()
    while load.unsettled() and time.monotonic() < min(until, grew + STUCK_SECONDS):
        arsonist.tend()
        if written.stat().st_size != size:
            size, grew = written.stat().st_size, time.monotonic()
        time.sleep(LOOK_SECONDS)


def _is_past(moment: float) -> bool:
    return time.monotonic() >= moment


def _wait(condition: Callable[[], object], seconds: float, meanwhile: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        meanwhile()
        time.sleep(LOOK_SECONDS)
