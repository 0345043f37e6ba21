"""What the worker's command says of the broker before it starts."""

from __future__ import annotations

import pytest
from celery import Celery

from django_rivet.management.commands.rivet_worker import shares_one_queue
from django_rivet.runtime import embedded


@pytest.mark.parametrize(
    ("broker", "transport", "pool", "shares"),
    [
        ("memory://", embedded.NAME, "prefork", False),
        ("redis://", None, "prefork", False),
        ("amqp://", None, "prefork", False),
        ("filesystem://", None, "prefork", True),
        ("filesystem://", None, "threads", False),
        ("filesystem://", None, "solo", False),
    ],
)
def test_only_brokers_without_an_event_loop_make_a_pool_of_processes_fragile(
    broker: str, transport: str | None, pool: str, shares: bool
) -> None:
    app = Celery(broker=broker, set_as_current=False)
    app.conf.broker_transport = transport

    assert shares_one_queue(app, pool) is shares
