"""The quickstart with a real worker, as somebody sees it who types what it says."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.follower import LATER, Follower
from tests.docs.pages import blocks_of
from tests.journeys.workers import eventually

pytestmark = pytest.mark.journey

SEND, LOOK = (block for block in blocks_of("quickstart") if block.is_typed)
SEND_A_THIRD = 'from shop.actors import CheckoutActor; CheckoutActor.get("main").send("orders", {"id": "order-3"})'

StartWorker = Callable[..., "Worker"]


class Worker:
    """`manage.py rivet_worker` in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        eventually(lambda: " ready." in log.read_text(errors="replace"), 30, "the worker is ready", log)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
def start_worker(follower: Follower, tmp_path: Path) -> Iterator[StartWorker]:
    workers: list[Worker] = []

    def start(**environment: str) -> Worker:
        log = tmp_path / f"worker-{len(workers)}.log"
        workers.append(Worker(follower.start("rivet_worker", log=log, **environment), log))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.poll() is None:
            worker.kill()


def test_the_quickstart_works_as_it_is_written(follower: Follower, start_worker: StartWorker) -> None:
    """Two processes, SQLite and nothing else: the shell shows what the page shows."""
    worker = start_worker()

    follower.manage("shell", typed=SEND.code)
    eventually(lambda: follower.manage("shell", typed=LOOK.code).endswith(LOOK.output), 30, LOOK.output, worker.log)

    # And what is sent while no worker lives is done by the next one
    worker.kill()
    follower.manage("shell", typed=SEND_A_THIRD)
    worker = start_worker()
    eventually(lambda: "completed=2" in follower.manage("shell", typed=LOOK.code), 30, "a third order", worker.log)


def test_the_quickstart_works_with_redis(follower: Follower, start_worker: StartWorker, redis_url: str) -> None:
    """Its last section changes nothing of what one sees."""
    follower.paste(b for b in blocks_of("quickstart") if b.section == LATER and "SQLite" not in b.head)
    worker = start_worker(REDIS_URL=redis_url)

    follower.manage("shell", typed=SEND.code, REDIS_URL=redis_url)
    eventually(
        lambda: follower.manage("shell", typed=LOOK.code, REDIS_URL=redis_url).endswith(LOOK.output),
        30,
        LOOK.output,
        worker.log,
    )
