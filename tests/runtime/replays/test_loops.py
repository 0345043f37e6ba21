"""`replay_from()`: where loops go on, and that a crash on the way changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from django_rivet import (
    Break,
    Continue,
    Queue,
    UnknownEntryError,
    current_step,
    workflow,
)
from django_rivet.models import Message
from django_rivet.testing import SimulatedCrash, crash_at, drive

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("size", [1, 2, 20])
@pytest.mark.parametrize("leave", ["break", "never"])
def test_a_loop_goes_on_in_an_iteration_whose_predecessors_are_forgotten(
    trips: Any, outside: list[str], size: int, leave: str
) -> None:
    """With the state that it began with."""

    class Days(trips):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days", state=0, history_prune_interval=1, history_size=size):
                turn.step("do", self.do, f"{turn.iteration} {turn.state}")
                turn.step("rest", self.do, "rest")
                turn.state += 10
                if turn.iteration == 4 and leave == "break":
                    break
                if turn.iteration == 4:
                    turn.sleep("night", 60)

    handle = Days.create("one")
    drive(handle)
    outside.clear()

    handle.replay_from("days/4/do")

    drive(handle)
    assert outside == ["4 40", "rest"]


@pytest.mark.parametrize("size", [1, 2])
def test_an_iteration_whose_state_is_forgotten_is_not_entered(trips: Any, outside: list[str], size: int) -> None:
    """A function that breaks off may leave nothing that says what its last iteration began with: the error says so."""

    class Days(trips):
        @workflow
        def run(self, ctx):
            ctx.step("first", self.do, "first")
            ctx.loop("days", self.day, state=0, history_prune_interval=1, history_size=size)

        def day(self, turn, state):
            turn.step("do", self.do, f"{turn.iteration} {state}")
            return Break(state) if turn.iteration == 3 else Continue(state + 10)

    handle = Days.create("one")
    assert drive(handle) == "completed"
    outside.clear()

    if size == 2:
        handle.replay_from("days/3/do")
        assert drive(handle) == "completed"
        assert outside == ["3 30"]
    else:
        with pytest.raises(UnknownEntryError, match=r"'days/3' .* replay from a step in front of its loop"):
            handle.replay_from("days/3/do")
        handle.replay_from("first")
        assert drive(handle) == "completed"
        assert outside == ["first", "0 0", "1 10", "2 20", "3 30"]


@pytest.mark.parametrize(("size", "oldest"), [(2, 4), (20, 3)])
@pytest.mark.parametrize("form", ["iterator", "function"])
def test_what_ran_behind_a_recovered_step_runs_again_wherever_it_stands(
    trips: Any, outside: list[str], broken: set[str], size: int, oldest: int, form: str
) -> None:
    """A loop that began before it, and went on after it, goes on again from there, or from what is not forgotten."""

    class Trip(trips):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "flight", rollback=self.undo)
            options = {"state": 0, "history_prune_interval": 1, "history_size": size}
            if form == "function":
                ctx.loop("days", self.day, **options)
            else:
                for turn in ctx.loop("days", **options):
                    if isinstance(self.day(turn, turn.state), Break):
                        break
                    turn.state += 10
            ctx.step("end", self.do, "end")

        def day(self, turn, state):
            turn.step("day", self.do, f"day {turn.iteration}")
            turn.step("state", self.do, f"state {state}")
            if turn.iteration == 5:
                return Break()
            return Continue(state + 10)

    broken.add("day 3")
    handle = Trip.create("one")
    assert drive(handle) == "failed"
    broken.clear()
    outside.clear()
    assert handle.recover()
    assert drive(handle) == "completed"
    again = list(outside)
    assert again == ["flight", "day 3", "state 30", "day 4", "state 40", "day 5", "state 50", "end"]

    handle.replay_from("flight")
    assert drive(handle) == "completed"

    assert outside == [*again, "flight", *again[again.index(f"day {oldest}") :]]


@pytest.mark.parametrize("scope", ["loop", "block"])
@pytest.mark.parametrize("now_a", ["step", "sleep"])
def test_what_was_undone_in_a_scope_that_is_set_aside_binds_nothing(
    trips: Any, outside: list[str], broken: set[str], scope: str, now_a: str
) -> None:
    """That it has a key of its own is remembered; what stands there in the new run is free."""

    class Trip(trips):
        changed = False
        keys: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("first", self.do, "first")
            if scope == "loop":
                for turn in ctx.loop("scope"):
                    self.part(turn)
                    if turn.iteration == 1:
                        break
            else:
                ctx.try_block("scope", self.part)
            ctx.step("last", self.do, "last")

        def part(self, context):
            if self.changed and now_a == "sleep":
                context.sleep("flight", 0)
            else:
                context.step("flight", self.book, rollback=self.undo_booking)

        def book(self):
            self.keys.append(current_step().idempotency_key)

        def undo_booking(self, rollback, output):
            outside.append("undo")

    broken.add("last")
    handle = Trip.create("one")
    assert drive(handle) == "failed"
    flights = 2 if scope == "loop" else 1
    assert outside == ["first"] + ["undo"] * flights
    broken.clear()
    Trip.changed = True

    handle.replay_from("first")
    assert [entry.path for entry in handle.history()] == ["trip"]
    assert drive(handle) == "completed"

    again = flights if now_a == "step" else 0
    assert len(Trip.keys) == len(set(Trip.keys)) == flights + again


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("n", range(1, 8))
def test_a_crash_after_a_replay_changes_nothing(trips: Any, n: int, after: bool) -> None:
    """Whatever dies when: each message is taken once since, and each step has run once."""

    class Shop(trips):
        class State:
            taken: list[str] = []
            count: int = 0

        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("open", self.take, "open")
            for turn in ctx.loop("orders"):
                turn.step("take", self.take, turn.queue.next("order").body)

        def take(self, what):
            self.state.taken.append(what)

    handle = Shop.create("one")
    for body in ("a", "b"):
        handle.send("orders", body)
    drive(handle)
    handle.replay_from("open")
    handle.send("orders", "c")

    try:
        with crash_at(n, after=after):
            drive(handle)
    except SimulatedCrash:
        pass
    drive(handle)

    assert handle.state.taken == ["open", "a", "b", "open", "a", "b", "c"]
    assert set(Message.objects.filter(actor__id=handle.id).values_list("status", flat=True)) == {"handled"}


def test_a_handled_message_that_was_deleted_comes_back(trips: Any, outside: list[str]) -> None:
    """From the record of the wait, in its old place: else the workflow would wait for it for ever."""

    class Shop(trips):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("open", self.do, "open")
            for turn in ctx.loop("orders"):
                turn.step("take", self.do, turn.queue.next("order").body)

    handle = Shop.create("one")
    handle.send("orders", "a")
    handle.send("orders", "b")
    drive(handle)
    before = list(Message.objects.order_by("id").values("id", "actor", "queue", "body", "created_at"))
    Message.objects.filter(body__contains="a").delete()

    handle.replay_from("open")
    handle.send("orders", "c")
    drive(handle)

    assert outside == ["open", "a", "b", "open", "a", "b", "c"]
    assert list(Message.objects.order_by("id").values("id", "actor", "queue", "body", "created_at"))[:2] == before
