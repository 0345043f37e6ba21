"""A real worker looks at its start whether the server has enough connections for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_rivet.runtime.connecting import needed
from django_rivet.store.capacity import capacity
from tests.journeys.conftest import StartWorker
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]


def test_a_worker_that_may_need_more_connections_than_the_server_has_says_so_at_its_start(
    start_worker: StartWorker, ledger: Path
) -> None:
    """In its log, as a warning, with its pool and its concurrency as they were given; then it works all the same."""
    server = capacity()
    assert server is not None
    # Threads are started only when there is work for them: so many cost nothing.
    concurrency = server.limit + 1

    worker = start_worker("--pool=threads", f"--concurrency={concurrency}")

    def warning() -> str:
        lines = worker.log.read_text(errors="replace").splitlines()
        return next((line for line in lines if "database connections" in line), "")

    eventually(lambda: f"left of {server.limit}" in warning(), 60, "it tells of the server", worker.log)
    need = needed("threads", concurrency)
    assert f"may need {need} database connections (threads, concurrency {concurrency})" in warning()
    assert "WARNING" in warning()
    eventually(lambda: worker.is_ready, 60, "the worker works", worker.log)
