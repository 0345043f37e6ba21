"""Workers on this test's database, with or without a broker."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journeys import outside
from tests.journeys.workers import WorkerProcess

LEASE_SECONDS = 2.0
StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger"
    monkeypatch.setenv(outside.VARIABLE, str(path))
    return path


@pytest.fixture
def start_worker(child_environment: dict[str, str], ledger: Path, tmp_path: Path) -> Iterator[StartWorker]:
    """Start a worker; all are gone when the test ends. ``broker``: a Redis URL, else the embedded default."""
    started: list[WorkerProcess] = []
    numbers = itertools.count()

    def start(*options: str, broker: str = "", **settings: object) -> WorkerProcess:
        environment = {
            **child_environment,
            outside.VARIABLE: str(ledger),
            "REDIS_URL": broker,
            "RIVET_TEST_SETTINGS": json.dumps({"LEASE_SECONDS": LEASE_SECONDS, **settings}),
        }
        number = next(numbers)
        worker = WorkerProcess(environment, tmp_path / f"worker-{number}.log", f"--hostname=w{number}@%h", *options)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.kill()
