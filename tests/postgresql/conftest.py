"""What only a server can do to its clients. On SQLite, which has none, these tests do not exist."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.journeys.orders")

from tests.journeys.conftest import ledger, start_worker  # noqa: E402, F401 - fixtures
from tests.postgresql.server import Server  # noqa: E402
from tests.runtime.conftest import shop  # noqa: E402, F401 - a fixture

collect_ignore_glob = [] if os.environ.get("RIVET_TEST_DATABASE") == "postgresql" else ["test_*.py"]


@pytest.fixture
def server(transactional_db: None) -> Iterator[Server]:
    """The test's way to the server beside the connection that it is about to lose."""
    with Server() as beside:
        yield beside
