"""Actors for a command to look at."""

from collections.abc import Iterator

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.testing import isolated_actors


@pytest.fixture
def shop() -> Iterator[type[Actor]]:
    """Waits for orders for ever; one that is declined fails it."""
    with isolated_actors():

        class Shop(Actor):
            orders = Queue(dict)
            returns = Queue(dict)

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("orders"):
                    turn.step("take", self.take, turn.queue.next("order", names=["orders"]).body)

            def take(self, order):
                if "declined" in order:
                    raise CriticalError(order["declined"])

        yield Shop


@pytest.fixture
def errand(shop: type[Actor]) -> type[Actor]:
    """Is done at once."""

    class Errand(Actor):
        jobs = Queue(dict)

        @workflow
        def run(self, ctx):
            pass

    return Errand
