"""The thread that renews the leases of long drives."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest

from django_rivet.runtime import heartbeat
from django_rivet.store.database import connection
from django_rivet.store.journal import Lease
from tests.journeys.workers import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_drive_that_ends_in_the_middle_of_a_beat_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may come for hours who would make the heartbeat look again."""
    opened: list[Any] = []
    has_begun, may_end = threading.Event(), threading.Event()

    def renew(lease: Lease, *, leaving: bool) -> None:
        connection().ensure_connection()
        opened.append(connection())
        has_begun.set()
        may_end.wait(30)

    monkeypatch.setattr(heartbeat, "renew", renew)

    with heartbeat.Heartbeat().of(Lease(uuid.uuid4(), 1, 0.03)):
        assert has_begun.wait(30)
    may_end.set()

    eventually(lambda: opened[0].connection is None, 5, "the connection is closed")
