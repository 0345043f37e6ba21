"""What the worker's command says of the broker before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest
from celery import Celery
from celery.signals import task_postrun, task_prerun
from django.core.management import call_command

from django_rivet.management.commands import rivet_worker
from django_rivet.management.commands.rivet_worker import ONE_QUEUE, shares_one_queue
from django_rivet.runtime import embedded


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """With which arguments the command has started Celery's worker: that of a project with files for a broker."""
    started: list[list[str]] = []
    app = Celery("shop", broker="filesystem://", set_as_current=False)
    monkeypatch.setattr(app, "worker_main", started.append)
    monkeypatch.setattr(rivet_worker, "celery_app", lambda: app)
    yield started
    for signal in (task_prerun, task_postrun):
        signal.disconnect(dispatch_uid="django_rivet.connections")


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


@pytest.mark.parametrize(("pool", "is_told"), [("prefork", True), ("threads", False)])
def test_the_operator_of_a_fragile_pool_is_told_before_the_worker_starts(
    started: list[list[str]], pool: str, is_told: bool
) -> None:
    """Where the command was typed; the worker starts all the same."""
    said = StringIO()

    call_command("rivet_worker", pool=pool, stderr=said, no_color=True)

    assert said.getvalue().splitlines() == ([ONE_QUEUE] if is_told else [])
    assert [arguments[:2] for arguments in started] == [["worker", f"--pool={pool}"]]
