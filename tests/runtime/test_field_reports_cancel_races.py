"""A cancellation within a few milliseconds of the end: cancelled or completed, and everything says the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from rest_framework.test import APIClient

from django_rivet import Actor, Event, workflow
from django_rivet.models import Event as EventRow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

REPETITIONS = 200
WITHIN_SECONDS = 0.005
STEP_SECONDS = 0.007
PATIENCE_SECONDS = 60


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """A thread that does things one after another, on one connection of its own."""
    with ThreadPoolExecutor(1) as thread:
        yield thread
        thread.submit(connections.close_all).result()


def cancel_around_the_end(order: Any, begun: threading.Event, offset: float) -> bool:
    """``offset`` seconds from the moment its last step returns."""
    assert begun.wait(PATIENCE_SECONDS)
    time.sleep(STEP_SECONDS + offset)
    return bool(order.cancel())


@pytest.mark.timeout(600)
def test_two_hundred_cancellations_around_the_return_of_the_last_step(elsewhere: ThreadPoolExecutor) -> None:
    """Status, history, event and REST tell one story each time; what has ended stays as it ended."""
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser("root"))
    with isolated_actors():

        class Order(Actor):
            done = Event(str)

            @workflow
            def run(self, ctx):
                return ctx.step("last", self.last)

            def last(self):
                begun.set()
                time.sleep(STEP_SECONDS)
                self.done.broadcast("done")
                return "done"

        for n in range(REPETITIONS):
            begun = threading.Event()
            order = Order.create(f"order {n}")
            offset = WITHIN_SECONDS * (2 * n / (REPETITIONS - 1) - 1)

            answer = elsewhere.submit(cancel_around_the_end, order, begun, offset)
            drive(order)
            accepted = answer.result(PATIENCE_SECONDS)
            drive(order)

            seen = order.snapshot()
            assert (seen.status, seen.error) in (("completed", None), ("cancelled", None))
            assert seen.output == ("done" if seen.status == "completed" else None)
            assert accepted or seen.status == "completed", "who was refused came too late"
            # The step had begun: it is on record with its own value and its event, whichever of them won.
            assert [(e.path, e.status, e.output) for e in order.history()] == [("last", "completed", "done")]
            assert EventRow.objects.filter(actor_id=order.id).count() == 1
            shown = client.get(f"/api/actors/{Order.definition.type_name}/order%20{n}/").json()
            assert (shown["status"], shown["output"]) == (seen.status, seen.output)
            assert [order.cancel(), order.recover(), drive(order)] == [False, False, seen.status]
