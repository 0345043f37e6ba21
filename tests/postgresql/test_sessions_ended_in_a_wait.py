"""The server ends the session of a drive that waits in memory, as workers do where they have not long to wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, current_step, workflow
from django_rivet.models import Entry, WorkflowRun
from django_rivet.runtime import host
from django_rivet.runtime.celery_tasks import drive as drive_task
from django_rivet.testing import advance, isolated_actors
from tests.postgresql.server import Server

pytestmark = pytest.mark.django_db(transaction=True)

BRIEFLY = 30.0
"""However slow this machine is, it is not over before the wait for it begins. Nobody waits so long in truth."""


class Clock:
    """That of drives: it runs as always, and skips what they would sleep. In their first sleep the session is ended."""

    def __init__(self, server: Server) -> None:
        self.slept: list[float] = []
        self._server = server

    def monotonic(self) -> float:
        return time.monotonic() + sum(self.slept)

    def sleep(self, seconds: float) -> None:
        if not self.slept:
            self._server.end_session()
        self.slept.append(seconds)


@pytest.fixture
def clock(server: Server, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Clock]:
    settings.RIVET = {"SLICE_SECONDS": 1000}
    clock = Clock(server)
    monkeypatch.setattr(host, "time", clock)
    monkeypatch.setattr(host, "INLINE_WAIT_SECONDS", 2 * BRIEFLY)
    with isolated_actors():
        yield clock


def nap(ctx: Any) -> None:
    ctx.sleep("nap", BRIEFLY)


def nap_in_all_branches(ctx: Any) -> None:
    ctx.join("naps", {name: lambda branch: branch.sleep("nap", BRIEFLY) for name in ("one", "two")})


def be_tried_again(ctx: Any) -> None:
    def fail_once() -> None:
        if current_step().attempt == 1:
            raise ConnectionError("not yet")
        assert Group.objects.count() == 1

    ctx.step("flaky", fail_once, max_retries=1, retry_backoff_base=BRIEFLY, retry_jitter=0)


@pytest.mark.parametrize("wait", [nap, nap_in_all_branches, be_tried_again])
@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_a_session_that_ends_while_the_drive_waits_costs_nothing(clock: Clock, wait: Any, atomic: bool) -> None:
    """Whatever comes first after the wait finds another session, at once or with the next drive: never a failure."""

    class Order(Actor):
        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            ctx.step("before", self.work, "before", max_retries=0)
            wait(ctx)
            ctx.step("after", self.work, "after", max_retries=0, atomic=atomic)

        @run.on_error
        def note(self, event):
            self.state.told += 1

        def work(self, what: str) -> None:
            Group.objects.create(name=what)

    order = Order.create("one")

    # When a worker drives it, and again where the database has failed that drive
    drive_task(order.id)
    assert clock.slept, "the drive did not wait in memory"
    assert (WorkflowRun.objects.get().holder, WorkflowRun.objects.get().takeovers) == (None, 0)
    advance(60)
    drive_task(order.id)

    # Then it is done, once, and no attempt was charged that the step did not fail by itself
    assert order.status == "completed"
    assert sorted(Group.objects.values_list("name", flat=True)) == ["after", "before"]
    failures = 1 if wait is be_tried_again else 0
    assert order.state.told == failures
    charged = {each.path: each.attempts - each.interruptions for each in Entry.objects.filter(kind="step")}
    assert charged == {"before": 1, "after": 1} | ({"flaky": 2} if failures else {})
