"""Pause and resume beside a worker that never rests: whatever they meet it at, nothing is lost or done twice."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from django_rivet import Actor, ActorBusyError, Queue, workflow
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import this_worker
from django_rivet.store.runs import due_actors
from django_rivet.testing import isolated_actors
from tests.journeys.workers import eventually

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS = 40


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@contextmanager
def working() -> Iterator[None]:
    """A worker in a thread of its own, which drives what is due until the block ends; its errors are raised."""
    ends = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        worker = this_worker()
        try:
            while not ends.wait(0.005):
                for due in due_actors(10):
                    drive_once(due.actor_id, worker)
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    if errors:
        raise errors[0]


def shop() -> Any:
    class Shop(Actor):
        class State:
            taken: list[int] = []

        orders = Queue(int)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.step("take", self.take, turn.queue.next("order").body)

        def take(self, number):
            self.state.taken.append(number)

    return Shop


def takes_effect(condition: Callable[[], bool], what: str) -> None:
    eventually(condition, 60, what)


def test_a_paused_actor_stands_still_while_its_worker_asks_for_more() -> None:
    """Once it says `paused` nothing more happens, and after the last resume each order was taken once, in order."""
    handle = shop().create("main")
    sent = 0
    with working():
        for _ in range(8):
            for _ in range(ORDERS // 8):
                handle.send("orders", sent)
                sent += 1
            assert handle.pause()
            takes_effect(lambda: handle.status == "paused", "it pauses")
            before = handle.state.taken
            assert not drive_once(uuid.UUID(handle.id), this_worker())
            assert (handle.status, handle.state.taken) == ("paused", before)
            assert handle.resume()
        takes_effect(lambda: len(handle.state.taken) == sent, "all is taken")

    assert handle.state.taken == list(range(sent))


def test_pause_and_resume_at_any_moment_leave_an_actor_that_goes_on() -> None:
    """Nobody waits for the other: many of both, as fast as they come, beside sends and wake-ups."""
    handle = shop().create("main")
    with working():
        for number in range(ORDERS):
            handle.pause()
            handle.send("orders", number)
            handle.resume()
            handle.wake()
        takes_effect(lambda: len(handle.state.taken) == ORDERS, "all is taken")
        takes_effect(lambda: handle.status == "sleeping", "it waits")

    assert handle.state.taken == list(range(ORDERS))


def is_destroyed(handle: Any) -> bool:
    """A slow machine may hold its turn for longer than anybody waits; then nothing has happened."""
    try:
        handle.destroy()
    except ActorBusyError:
        return False
    return True


@pytest.mark.parametrize("rollback", [False, True])
def test_a_cancellation_beside_a_pause_ends_it(rollback: bool) -> None:
    """Whichever the worker hears of first, and whether it has paused by then or not."""
    cls = shop()
    with working():
        for n in range(10):
            handle = cls.create(str(n))
            handle.send("orders", n)
            handle.pause()
            assert handle.cancel(rollback=rollback)
            takes_effect(lambda handle=handle: handle.status == "cancelled", "it is cancelled")


def test_actors_that_are_destroyed_beside_their_worker_leave_it_at_work() -> None:
    """It goes on with the others, and the key's new actor gets none of the old one's orders."""
    cls = shop()
    with working():
        for n in range(15):
            handle = cls.create("main")
            for number in range(5):
                handle.send("orders", 100 * n + number)
            if n % 3:
                takes_effect(lambda handle=handle: bool(handle.state.taken), "it is at work")
            assert set(handle.state.taken) <= {100 * n + number for number in range(5)}
            takes_effect(lambda handle=handle: is_destroyed(handle), "its turn is free")
        last = cls.create("main")
        last.send("orders", 7)
        takes_effect(lambda: last.state.taken == [7], "the last one is at work")
