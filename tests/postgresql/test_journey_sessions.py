"""The server ends sessions of real workers at random, while orders run."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.journeys.conftest import StartWorker
from tests.journeys.orders import NO_RETRIES, Orders
from tests.journeys.workers import eventually
from tests.postgresql.server import Server

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]

SECONDS = 10.0
ENDED = 60
AT_MOST = 60.0
WORKERS = "rivet-workers"


def test_sessions_that_end_at_random_moments_cost_nothing(
    child_environment: dict[str, str], start_worker: StartWorker, ledger: Path, redis_url: str, server: Server
) -> None:
    """Those of drives, sweepers and heartbeats: every order ends right, though no step has a retry to spend on it."""
    # Given workers of both pools
    child_environment["PGAPPNAME"] = WORKERS
    orders = Orders(4)
    workers = [
        start_worker("--concurrency=2", broker=redis_url, **NO_RETRIES),
        start_worker("--pool=threads", "--concurrency=3", broker=redis_url, **NO_RETRIES),
    ]
    eventually(lambda: all(w.is_ready for w in workers), 60, "the workers are ready", workers[-1].log)

    # When for ten seconds one session after another is ended, and orders keep coming
    began = time.monotonic()
    ended = 0
    while time.monotonic() < began + AT_MOST and (time.monotonic() < began + SECONDS or ended < ENDED):
        if len(orders.sent) < 20 * (time.monotonic() - began):
            orders.send()
        for pid in random.sample(pids := server.sessions_of(WORKERS), min(1, len(pids))):
            server.end(pid)
            ended += 1
        time.sleep(random.uniform(0.0, 0.1))
    assert ended >= ENDED

    # Then all orders end right, and nobody had to start a worker again
    orders.assert_right(ledger, workers[0].log)
    assert [worker.process.poll() for worker in workers] == [None, None]
