"""One web process and two worker processes on one SQLite file: what its users are answered.

Always on a file of its own, whatever database the other tests are on.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.journeys import outside
from tests.journeys.outside import effects
from tests.journeys.workers import PROJECT, WorkerProcess, eventually
from tests.runtime.test_turns import at_once
from tests.services import dies_with_parent

pytestmark = [pytest.mark.journey, pytest.mark.timeout(300)]

COUNTERS = [f"counter-{n}" for n in range(6)]
CLIENTS = 4
REQUESTS = 40


class Site:
    """The example project behind uvicorn, with an account to ask it by."""

    def __init__(self, folder: Path, ledger: Path) -> None:
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "RIVET_TEST_DATABASE": "sqlite",
            "RIVET_TEST_DATABASE_NAME": str(folder / "site.sqlite3"),
            "DJANGO_SUPERUSER_PASSWORD": "secret",
            "PYTHONUNBUFFERED": "1",
            "REDIS_URL": "",
            outside.VARIABLE: str(ledger),
        }
        self.log = folder / "web.log"
        self._manage("migrate", "--verbosity=0")
        self._manage("createsuperuser", "--noinput", "--username=root", "--email=root@example.org")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/api/actors/"
        listens = [f"--fd={self._socket.fileno()}", "--no-access-log"]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "example_project.asgi:application", "--lifespan=off", *listens],
                cwd=PROJECT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[self._socket.fileno()],
                preexec_fn=dies_with_parent(),
            )

    def post(self, path: str, body: Any) -> Any:
        return self._ask(path, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        return self._ask(path, None)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(30)
        self._socket.close()

    def _ask(self, path: str, body: bytes | None) -> Any:
        """The answer; an ``AssertionError`` with all of it where it is none that a user could use."""
        account = base64.b64encode(b"root:secret").decode()
        headers = {"Authorization": f"Basic {account}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from error

    def _manage(self, *arguments: str) -> None:
        subprocess.run([sys.executable, "manage.py", *arguments], cwd=PROJECT, env=self.environment, check=True)


@pytest.fixture
def site(tmp_path: Path, ledger: Path) -> Iterator[Site]:
    """The web process, and two workers beside it."""
    with ExitStack() as stack:
        site = Site(tmp_path, ledger)
        stack.callback(site.close)
        for n in range(2):
            worker = WorkerProcess(
                site.environment, tmp_path / f"worker-{n}.log", f"--hostname=w{n}@%h", "--concurrency=2"
            )
            stack.callback(worker.kill)
            eventually(partial(_is_ready, worker), 60, "the worker is ready", worker.log)
        yield site


def _is_ready(worker: WorkerProcess) -> bool:
    return worker.is_ready


def counts_of(site: Site, key: str) -> list[int]:
    counts: list[int] = site.post(f"journeys.CounterActor/{key}/actions/counts/", {})["output"]
    return counts


def test_no_user_hears_of_a_lock_while_actions_and_steps_write_at_once(site: Site) -> None:
    """Every request is answered with its result, and nothing that was asked for is lost."""
    # Given actors whose workflows run in two workers
    for key in COUNTERS:
        site.post("journeys.CounterActor/", {"key": key})

    # When four clients at once call actions and send messages
    def work(client: int) -> None:
        for n in range(REQUESTS):
            path = f"journeys.CounterActor/{COUNTERS[(client + n) % len(COUNTERS)]}"
            if n % 2:
                site.post(f"{path}/actions/add/", {"args": [1]})
            else:
                site.post(f"{path}/queues/ticks/", {"body": 1})

    at_once(CLIENTS, work)

    # Then every call was answered, and every message comes to be worked on
    expected = CLIENTS * REQUESTS // 2

    def total() -> list[int]:
        return [sum(column) for column in zip(*(counts_of(site, key) for key in COUNTERS), strict=True)]

    eventually(lambda: total() == [expected, expected], 60, "all messages are counted", site.log)
    assert "database is locked" not in site.log.read_text()


def test_an_atomic_step_that_asks_the_database_nothing_blocks_nobody(site: Site, ledger: Path) -> None:
    """However long it takes: others write meanwhile, over HTTP and in workers."""
    # Given a step that stands still in the middle of its transaction until it is told to go on
    site.post("journeys.StillActor/", {"key": "main"})
    eventually(lambda: "standing" in effects(ledger), 60, "the step stands still", site.log)

    # When others write
    for key in COUNTERS:
        site.post("journeys.CounterActor/", {"key": key})
        assert site.post(f"journeys.CounterActor/{key}/actions/add/", {"args": [1]})["output"] == 1
        site.post(f"journeys.CounterActor/{key}/queues/ticks/", {"body": 1})

    # Then all of them are done, also what a worker has to do, while it still stands
    eventually(lambda: all(counts_of(site, key) == [1, 1] for key in COUNTERS), 30, "the others are done", site.log)
    assert site.get("journeys.StillActor/main/")["status"] == "running"
    with ledger.open("a") as told:
        told.write("go:main now\n")
    eventually(lambda: site.get("journeys.StillActor/main/")["status"] == "completed", 60, "the step goes on", site.log)
    assert sum(effects(ledger)["standing"].values()) == 1
