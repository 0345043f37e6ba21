"""The server is away for five seconds: workers outlive it, and all goes on without anybody's hand."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import Error, connection

from tests.journeys.conftest import StartWorker
from tests.journeys.orders import NO_RETRIES, Orders
from tests.journeys.workers import eventually
from tests.services import PostgresServer

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]

AWAY_SECONDS = 5.0


class OwnServer:
    """A server that only this test uses, so that it may be away."""

    def __init__(self, home: Path) -> None:
        self._server = PostgresServer(home)
        self._running = ExitStack()
        self.url = self._server.url
        self.start()

    def start(self) -> None:
        self._running.enter_context(self._server.running())

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def own_server(child_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnServer]:
    """Here and in the workers; tables are made."""
    folder = os.environ.get("RIVET_TEST_DIR")
    if not folder:
        pytest.fail("No RIVET_TEST_DIR. Start pytest behind `python -m tests.services --`.")
    server = OwnServer(Path(folder) / f"own-postgres-{uuid.uuid4().hex[:8]}")
    try:
        at = urlsplit(server.url)
        child_environment["RIVET_TEST_POSTGRES_URL"] = server.url
        child_environment["RIVET_TEST_DATABASE_NAME"] = at.path.strip("/")
        connection.close()
        with monkeypatch.context() as patch:
            for key, value in {"HOST": at.hostname, "PORT": at.port, "USER": at.username, "PASSWORD": ""}.items():
                patch.setitem(connection.settings_dict, key, value)
            patch.setitem(connection.settings_dict, "NAME", at.path.strip("/"))
            call_command("migrate", run_syncdb=True, verbosity=0)
            yield server
            connection.close()
    finally:
        server.stop()


def test_workers_outlive_a_server_that_is_away_for_five_seconds(
    own_server: OwnServer, start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Every order that was stored ends right, and one that could not be stored is heard of at once."""
    # Given workers of both pools in the middle of orders
    orders = Orders(6)
    workers = [
        start_worker("--concurrency=2", broker=redis_url, **NO_RETRIES),
        start_worker("--pool=threads", "--concurrency=3", broker=redis_url, **NO_RETRIES),
    ]
    eventually(lambda: all(w.is_ready for w in workers), 60, "the workers are ready", workers[-1].log)
    orders.send(10)
    eventually(orders.some_are_under_way(ledger), 60, "work begins", workers[0].log)

    # When the server is away for five seconds
    own_server.stop()
    with pytest.raises(Error):
        orders.send()
    connection.close()
    time.sleep(AWAY_SECONDS)
    with pytest.raises(Error):
        orders.send()
    own_server.start()
    connection.close()

    # Then they go on with what they had, and with what comes
    orders.send()
    orders.assert_right(ledger, workers[0].log)
    assert [worker.process.poll() for worker in workers] == [None, None]
