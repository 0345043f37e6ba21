"""B26: a branch fails while its siblings are in flight, or have not begun."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_rivet import Actor, CriticalError, workflow
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


class World:
    """What happens outside, in the order in which it happens."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.in_flight = threading.Barrier(3, timeout=PATIENCE)
        self.b_has_failed = threading.Event()
        self.handler_is_busy: set[str] = set()

    def wait_for_failure(self) -> None:
        assert self.b_has_failed.wait(PATIENCE)


def trip(world: World) -> Any:
    """A: an effect, and it is over. B: fails when A is over. C: its effect comes long after that. D: in the queue."""

    class Trip(Actor):
        class State:
            undone: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("all", {name: lambda b, n=name: self.branch(b, n) for name in "abcd"})

        def branch(self, b, name):
            body = getattr(self, name, self.do)
            if name != "d":
                b.step("meet", world.in_flight.wait, atomic=False)
            b.step(
                "do",
                body,
                name,
                atomic=False,
                max_retries=0,
                rollback=self.undo,
                rollback_atomic=True,
                rollback_max_retries=3,
                rollback_backoff_base=10,
            )

        @run.on_error
        def note(self, event):
            if event.kind == "step":
                world.b_has_failed.set()

        def do(self, name):
            world.log.append(f"do {name}")
            return name

        def b(self, name):
            raise CriticalError("b is closed")

        def c(self, name):
            world.wait_for_failure()
            return self.do(name)

        def undo(self, rollback, name):
            if name in world.handler_is_busy:
                world.handler_is_busy.remove(name)
                raise OSError("busy")
            time.sleep(0.2)
            self.state.undone.append(name)
            world.log.append(f"undo {name}")

    return Trip


@pytest.fixture
def three_threads(settings: Any) -> None:
    settings.RIVET = {"BRANCH_THREADS": 3}


def newest_first(handle: Any) -> list[str]:
    done = [entry for entry in handle.history() if entry.rollback is not None]
    return [entry.output for entry in sorted(done, key=lambda entry: entry.seq, reverse=True)]


@pytest.mark.usefixtures("three_threads")
def test_rollback_begins_when_all_branches_have_settled() -> None:
    """C, which was in flight, is undone, since its effect is on record. D, which waited for a thread, runs to its end
    like every branch of a join, and is undone as well; the order is that of the records.
    """
    world = World()
    handle = trip(world).create("one")

    assert drive(handle) == "failed"

    done = [each for each in world.log if each.startswith("do")]
    undone = [each for each in world.log if each.startswith("undo")]
    assert world.log == done + undone, "nothing is undone while anything is still done"
    assert sorted(done) == ["do a", "do c", "do d"]
    assert undone == [f"undo {name}" for name in newest_first(handle)]
    assert handle.state.undone == newest_first(handle)
    assert [handle.history()[f"all/{name}"].status for name in "abcd"] == [
        "completed",
        "failed",
        "completed",
        "completed",
    ]
    assert handle.error.name == "JoinError"


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("busy", ["a", "c", "d"])
def test_the_order_is_the_same_after_a_restart_in_the_middle_of_the_rollback(busy: str) -> None:
    """One handler has to wait for its retry: what is older is undone behind it, by the next worker."""
    world = World()
    world.handler_is_busy.add(busy)
    handle = trip(world).create("one")

    assert drive(handle) == "rolling_back"
    order = newest_first(handle)
    assert handle.state.undone == order[: order.index(busy)]
    advance(60)

    assert drive(handle) == "failed"
    assert handle.state.undone == order
    assert newest_first(handle) == order


@pytest.mark.usefixtures("three_threads")
def test_a_cancellation_in_the_same_situation_does_not_let_the_fourth_begin() -> None:
    """Asked while three bodies are in flight: D never starts, and is never undone."""
    world, is_cancelled, b_has_begun, a_has_begun = World(), threading.Event(), threading.Event(), threading.Event()

    class Trip(trip(world)):
        class Meta:
            name = "cancelled"

        def a(self, name):
            a_has_begun.set()
            world.wait_for_failure()
            return self.do(name)

        def b(self, name):
            b_has_begun.set()
            assert is_cancelled.wait(PATIENCE)
            raise CriticalError("b is closed")

        def c(self, name):
            # Who is told of it before would not begin.
            assert a_has_begun.wait(PATIENCE)
            assert b_has_begun.wait(PATIENCE)
            type(self).get(self.key).cancel(rollback=True)
            is_cancelled.set()
            world.wait_for_failure()
            return self.do(name)

    handle = Trip.create("one")

    assert drive(handle) == "cancelled"
    assert sorted(each for each in world.log if each.startswith("do ")) == ["do a", "do c"]
    assert handle.state.undone == newest_first(handle)
    assert sorted(handle.state.undone) == ["a", "c"]
