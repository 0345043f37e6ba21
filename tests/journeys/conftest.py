"""Workers on this test's database, with or without a broker."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journeys import outside
from tests.journeys.workers import WorkerProcess

LEASE_SECONDS = 2.0
StartWorker = Callable[..., WorkerProcess]
Configure = Callable[[str], None]


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
        with suppress(ProcessLookupError):  # what a worker that has ended may have left behind goes too
            worker.kill()


@pytest.fixture
def configure(child_environment: dict[str, str], tmp_path: Path) -> Configure:
    """Give the project of the workers to come some lines of settings more."""

    def add(lines: str) -> None:
        (tmp_path / "own_settings.py").write_text(f"from tests.settings import *\n{lines}\n")
        child_environment["DJANGO_SETTINGS_MODULE"] = "own_settings"
        child_environment["PYTHONPATH"] = str(tmp_path)

    return add
