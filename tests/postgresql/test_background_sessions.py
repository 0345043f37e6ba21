"""The server ends the sessions of those who work in the background: they open others and go on."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from django_rivet import Actor, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.heartbeat import Heartbeat
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.store.journal import Lease
from django_rivet.store.runs import claim
from django_rivet.testing import isolated_actors
from tests.journeys.workers import eventually
from tests.postgresql.server import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def order(transactional_db: None) -> Iterator[Any]:
    """An actor that is due."""
    with isolated_actors():

        class Order(Actor):
            @workflow
            def run(self, ctx):
                ctx.step("first", int)

        yield Order.create("one")


def lease_until(order: Any) -> Any:
    return WorkflowRun.objects.get(actor_id=uuid.UUID(order.id)).lease_until


def test_a_heartbeat_whose_session_was_ended_renews_the_lease_all_the_same(order: Any, server: Server) -> None:
    """In the same beat: two sessions that end in a row must not cost a lease."""
    held = claim(uuid.UUID(order.id), "a worker", 10)
    assert held is not None
    heart, lease = Heartbeat(), Lease(held.lease.actor_id, held.lease.epoch, 60)

    def beat() -> None:
        try:
            heart._renew(lease, leaving=False)
            for _ in range(3):
                renewed.append(lease_until(order))
                server.end_session()
                heart._renew(lease, leaving=False)
            renewed.append(lease_until(order))
        finally:
            connections.close_all()

    renewed: list[Any] = []
    thread = threading.Thread(target=beat)
    thread.start()
    thread.join()

    assert len(set(renewed)) == 4
    assert renewed == sorted(renewed)


def test_a_sweeper_whose_session_is_ended_goes_on(order: Any, server: Server) -> None:
    """It finds what is due with the next sweep."""
    ended: list[int] = []
    found: list[uuid.UUID] = []

    def hint(actor_id: uuid.UUID, type_name: str, epoch: int) -> None:
        # In the sweeper's thread, and so on its connection
        if len(ended) < 3:
            server.end_session()
            ended.append(1)
            raise ConnectionError("no broker either")
        found.append(actor_id)

    sweeper = Sweeper(hint, 0.01)
    sweeper.start()
    try:
        eventually(lambda: found, 60, "the sweeper hints again")
    finally:
        sweeper.stop()

    assert found[0] == uuid.UUID(order.id)
