"""`replay_from()` beside a worker that never rests, and beside others: no message is lost, and none taken twice."""

from __future__ import annotations

from typing import Any

import pytest

from django_rivet import Actor, Queue, WorkflowInFlightError, workflow
from django_rivet.models import Entry, Message, WorkflowRun
from django_rivet.testing import drive, isolated_actors
from tests.journeys.workers import eventually
from tests.runtime.test_pausing_races import working
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 6
ORDERS_A_ROUND = 4
OPENS = "opens"


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@pytest.fixture
def shop() -> Any:
    """Notes when it opens, and what it takes from then on."""

    class Shop(Actor):
        class State:
            log: list[Any] = []

        orders = Queue(int)

        @workflow
        def run(self, ctx):
            ctx.step("open", self.note, OPENS)
            for turn in ctx.loop("orders", history_prune_interval=100):
                turn.step("take", self.note, turn.queue.next("order").body)

        def note(self, what):
            self.state.log.append(what)

    return Shop


def is_replayed(handle: Any) -> bool:
    """Where its worker is at work, nothing has happened."""
    try:
        handle.replay_from("open")
    except WorkflowInFlightError:
        return False
    return True


def days(log: list[Any]) -> list[list[int]]:
    """What was taken from one opening to the next."""
    found: list[list[int]] = []
    for what in log:
        if what == OPENS:
            found.append([])
        else:
            found[-1].append(what)
    return found


def test_beside_a_worker_and_sends_each_run_takes_the_messages_in_order(shop: Any) -> None:
    """Whatever it was at when it was set back, the messages come again from the first, and those behind them."""
    handle = shop.create("main")
    sent = 0
    with working():
        eventually(lambda: bool(handle.state.log), 60, "it opens")
        for number in range(ROUNDS):
            for _ in range(ORDERS_A_ROUND):
                handle.send("orders", sent)
                sent += 1
            eventually(lambda: is_replayed(handle), 60, "it is replayed")
            # Else the next replay would find no step to begin with.
            eventually(lambda n=number: len(days(handle.state.log)) == n + 2, 60, "it opens again")
        eventually(lambda: len(days(handle.state.log)[-1]) == sent, 60, "all is taken")
        eventually(lambda: handle.status == "sleeping", 60, "it waits")

    runs = days(handle.state.log)
    assert len(runs) == ROUNDS + 1
    assert all(taken == list(range(len(taken))) for taken in runs), runs
    assert runs[-1] == list(range(sent))
    assert WorkflowRun.objects.get(actor__id=handle.id).generation == ROUNDS
    assert set(Message.objects.values_list("status", flat=True)) == {"handled"}


def test_of_many_at_once_each_begins_a_generation(shop: Any) -> None:
    """One after the other; the second finds what the first has left."""
    handle = shop.create("main")
    for number in range(3):
        handle.send("orders", number)
    drive(handle)

    at_once(4, lambda n: handle.replay_from())

    assert WorkflowRun.objects.get(actor__id=handle.id).generation == 4
    assert not Entry.objects.filter(retired=None).exists()
    drive(handle)
    assert days(handle.state.log) == [[0, 1, 2]] * 2


def test_beside_sends_nothing_is_lost(shop: Any) -> None:
    """A message that arrives while others go back to their places stands behind them."""
    handle = shop.create("main")
    for number in range(5):
        handle.send("orders", number)
    drive(handle)

    at_once(4, lambda n: handle.replay_from() if n == 0 else handle.send("orders", 10 + n))
    drive(handle)

    last = days(handle.state.log)[-1]
    assert last[:5] == list(range(5))
    assert sorted(last[5:]) == [11, 12, 13]
