"""`replay_from()`: when it is allowed, and what becomes of compensations, loops, blocks and dead workers."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_rivet import (
    Actor,
    ActorNotFoundError,
    Break,
    Continue,
    CriticalError,
    NotReplayableError,
    Queue,
    StepOnlyError,
    UnknownEntryError,
    WorkflowInFlightError,
    current_step,
    workflow,
)
from django_rivet.models import Message, WorkflowRun
from django_rivet.store.runs import claim
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors, now

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@pytest.fixture
def outside() -> list[str]:
    """The outside world."""
    return []


@pytest.fixture
def broken() -> set[str]:
    """What fails at the moment."""
    return set()


@pytest.fixture
def trips(outside: list[str], broken: set[str]) -> Any:
    """A base for actors that do, fail and undo."""

    class Trips(Actor):
        class Meta:
            abstract = True

        class State:
            count: int = 0

        def do(self, name):
            if name in broken:
                raise CriticalError(f"no {name}")
            outside.append(name)
            self.state.count += 1

        def undo(self, rollback, output):
            name = rollback.args[0]
            if f"undo {name}" in broken:
                raise CriticalError(f"{name} is closed")
            outside.append(f"undo {name}")

    return Trips


@pytest.fixture
def trip(trips: Any) -> Any:
    """Three steps with handlers, a night in between."""

    class Trip(trips):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for name in ("flight", "hotel"):
                ctx.step(name, self.do, name, rollback=self.undo, rollback_max_retries=0)
            ctx.sleep("night", 60)
            ctx.step("car", self.do, "car", rollback=self.undo)

    return Trip


def row(handle: Any) -> WorkflowRun:
    return WorkflowRun.objects.get(actor__id=handle.id)


# When it is allowed ------------------------------------------------------------------------------


def test_a_sleeping_actor_is_replayed_at_once(trip: Any, outside: list[str]) -> None:
    """It does not wait for its timer, which was set aside; the state is not rewound."""
    handle = trip.create("one")
    drive(handle)

    handle.replay_from("hotel")
    assert handle.wake_at <= now()

    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel", "hotel"]
    assert handle.state.count == 3


def test_a_pending_actor_has_nothing_to_set_aside(trip: Any, outside: list[str]) -> None:
    """It runs as it would have."""
    handle = trip.create("one")

    with pytest.raises(UnknownEntryError, match="it has no step"):
        handle.replay_from("flight")
    handle.replay_from()

    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel"]


def test_a_diverged_actor_is_replayed_from_where_its_code_fits(trips: Any, outside: list[str]) -> None:
    """The way out where the old code is not to come back."""

    class Trip(trips):
        names = ("flight", "hotel", "car")

        @workflow
        def run(self, ctx):
            for name in self.names:
                ctx.step(name, self.do, name)
            ctx.sleep("night", 60)

    handle = Trip.create("one")
    drive(handle)
    Trip.names = ("flight", "boat", "car")
    handle.wake()
    assert drive(handle) == "diverged"

    handle.replay_from("hotel")

    assert handle.error is None
    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel", "car", "boat", "car"]


def test_while_a_worker_drives_the_actor_it_is_refused(trip: Any) -> None:
    """Nothing has happened; its worker goes on."""
    handle = trip.create("one")
    drive(handle)
    handle.wake()
    assert claim(uuid.UUID(handle.id), "a worker", 10) is not None
    before = row(handle).epoch

    with pytest.raises(WorkflowInFlightError, match="replay it when it waits, or pause the actor first"):
        handle.replay_from("hotel")

    assert (row(handle).epoch, row(handle).holder, row(handle).generation) == (before, "a worker", 0)


def test_what_a_dead_worker_held_is_replayed(trip: Any, outside: list[str]) -> None:
    """Its lease is over: should it wake up it can write nothing, and it counts as no takeover."""
    handle = trip.create("one")
    with pytest.raises(SimulatedCrash), crash_at(3):
        drive(handle)
    advance(60)

    handle.replay_from("flight")

    seen = row(handle)
    assert (seen.status, seen.holder, seen.lease_until, seen.takeovers, seen.cut_off) == (
        "sleeping",
        None,
        None,
        0,
        False,
    )
    assert drive(handle) == "sleeping"
    assert [e.path for e in handle.history() if e.kind == "step"] == ["flight", "hotel"]


def test_while_a_rollback_is_not_over_it_is_refused(trip: Any, broken: set[str], outside: list[str]) -> None:
    """At a handler that is out of attempts, and when that was put right but not run yet; then it is allowed."""
    handle = trip.create("one")
    drive(handle)
    broken |= {"car", "undo hotel"}
    advance(61)
    assert drive(handle) == "rollback_failed"

    with pytest.raises(NotReplayableError, match="stands still at a handler"):
        handle.replay_from("hotel")
    broken.clear()
    handle.retry_rollback("hotel")
    for pauses in (False, True):
        if pauses:
            handle.pause()
        with pytest.raises(NotReplayableError, match="is not over: replay it when it is"):
            handle.replay_from("hotel")
    handle.resume()
    assert drive(handle) == "failed"
    outside.clear()

    handle.replay_from("hotel")
    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel"]


def test_a_cancellation_that_was_asked_for_comes_first(trip: Any) -> None:
    """Whoever asked was told that it would be cancelled."""
    handle = trip.create("one")
    drive(handle)
    handle.cancel(rollback=True)

    with pytest.raises(NotReplayableError, match="is about to be cancelled"):
        handle.replay_from("hotel")

    assert drive(handle) == "cancelled"


def test_an_actor_without_a_workflow_has_nothing_to_replay() -> None:
    """It stays as it is."""

    class Plain(Actor):
        pass

    handle = Plain.create("one")

    with pytest.raises(NotReplayableError, match="has no workflow"):
        handle.replay_from()

    assert handle.status == "sleeping"


@pytest.mark.parametrize("entry", [1, ["flight"], b"flight", object()])
def test_an_entry_is_a_path_or_an_entry(trip: Any, entry: Any) -> None:
    """Anything else is the caller's mistake."""
    handle = trip.create("one")
    drive(handle)

    with pytest.raises(TypeError, match="the path of a step, or an entry of the history"):
        handle.replay_from(entry)


def test_a_destroyed_actor_is_gone(trip: Any) -> None:
    """As for every other method."""
    handle = trip.create("one")
    handle.destroy()

    with pytest.raises(ActorNotFoundError):
        handle.replay_from()


def test_in_workflow_code_it_is_refused(trips: Any) -> None:
    """Steps, handlers and actions of others may."""

    class Trip(trips):
        @workflow
        def run(self, ctx):
            other.replay_from()

    other = Trip.create("other")
    handle = Trip.create("one")

    assert drive(handle) == "failed"
    assert handle.error.name == StepOnlyError.__name__


def test_obeys_the_callers_transaction(trip: Any) -> None:
    """Rolled back, nothing was set aside."""
    handle = trip.create("one")
    drive(handle)
    before = (str(handle.history()), handle.wake_at)

    with transaction.atomic():
        handle.replay_from()
        transaction.set_rollback(True)

    assert (str(handle.history()), handle.wake_at) == before
    assert row(handle).generation == 0


def test_there_is_an_async_twin(trip: Any, outside: list[str]) -> None:
    """With the same arguments."""
    handle = trip.create("one")
    drive(handle)

    async_to_sync(handle.areplay_from)("hotel")

    drive(handle)
    assert outside == ["flight", "hotel", "hotel"]


def test_a_run_that_is_replayed_has_all_of_its_time(trips: Any) -> None:
    """`run_timeout` counts from the first drive since."""

    class Trip(trips):
        class Meta:
            run_timeout = 100

        @workflow
        def run(self, ctx):
            ctx.step("flight", self.do, "flight")
            ctx.sleep("night", 60)

    handle = Trip.create("one")
    drive(handle)
    advance(61)
    assert drive(handle) == "completed"
    advance(60)

    handle.replay_from("flight")
    assert drive(handle) == "sleeping"
    advance(61)

    assert drive(handle) == "completed"


def test_a_pause_that_had_not_taken_effect_does_so(trip: Any, outside: list[str]) -> None:
    """Its worker died before it paused the actor."""
    handle = trip.create("one")
    drive(handle)
    handle.wake()
    assert claim(uuid.UUID(handle.id), "a worker", 10) is not None
    assert handle.pause()
    advance(60)

    handle.replay_from("hotel")

    assert (handle.status, row(handle).pausing) == ("paused", False)
    assert handle.resume()
    assert drive(handle) == "sleeping"
    assert outside == ["flight", "hotel", "hotel"]


def test_a_step_that_may_run_only_once_runs_again(trips: Any, outside: list[str]) -> None:
    """Whoever replays it says that it may; the outcome of the first time is not known."""

    class Trip(trips):
        @workflow
        def run(self, ctx):
            ctx.step("call", self.call, at_most_once=True)

        def call(self):
            outside.append(current_step().idempotency_key)

    handle = Trip.create("one")
    with pytest.raises(SimulatedCrash), crash_at(3):
        drive(handle)
    assert drive(handle) == "failed"
    assert len(outside) == 1

    handle.replay_from("call")
    assert drive(handle) == "completed"

    assert outside == [outside[0]] * 2


# Compensations -----------------------------------------------------------------------------------


def test_a_completed_workflow_owes_again_what_stands_before_the_step(
    trip: Any, outside: list[str], broken: set[str]
) -> None:
    """Its scope had ended well, and is open again: a failure undoes what is left of it, and nothing else."""
    handle = trip.create("one")
    drive(handle)
    advance(61)
    assert drive(handle) == "completed"
    broken.add("hotel")

    handle.replay_from("hotel")
    assert drive(handle) == "failed"

    assert outside == ["flight", "hotel", "car", "undo flight"]
    assert {e.name: e.rollback.status for e in handle.history(generation=0) if e.rollback} == {
        "flight": "completed",
        "hotel": "settled",
        "car": "settled",
    }


def test_what_was_set_aside_is_not_owed(trip: Any) -> None:
    """An actor that has nothing else to undo can be destroyed."""
    handle = trip.create("one")
    drive(handle)

    handle.replay_from()

    handle.destroy()


def test_a_step_that_runs_again_is_undone_once(trip: Any, outside: list[str]) -> None:
    """With its key it has one effect, and one handler."""
    handle = trip.create("one")
    drive(handle)

    handle.replay_from("flight")
    drive(handle)
    handle.cancel(rollback=True)

    assert drive(handle) == "cancelled"
    assert outside == ["flight", "hotel"] * 2 + ["undo hotel", "undo flight"]


def test_the_order_of_an_earlier_iteration_stays(trips: Any, outside: list[str], broken: set[str]) -> None:
    """Only the iteration around the step is open again; what others have settled is settled."""

    class Shop(trips):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                number = turn.iteration
                turn.rollback_checkpoint("order")
                turn.step("reserve", self.do, f"reserve {number}", rollback=self.undo)
                turn.step("charge", self.do, f"charge {number}")
                if number == 2:
                    break

    handle = Shop.create("one")
    assert drive(handle) == "completed"
    outside.clear()
    broken.add("charge 1")

    handle.replay_from("orders/1/charge")

    assert drive(handle) == "failed"
    assert outside == ["undo reserve 1"]


def test_handlers_run_in_the_order_of_the_new_run(trip: Any, outside: list[str], broken: set[str]) -> None:
    """Newest first, also where some steps begin a new run under another key."""
    broken.add("car")
    handle = trip.create("one")
    drive(handle)
    advance(61)
    assert drive(handle) == "failed"
    outside.clear()

    handle.replay_from("hotel")
    drive(handle)
    advance(61)

    assert drive(handle) == "failed"
    assert outside == ["flight", "hotel", "undo hotel", "undo flight"]


# Blocks ------------------------------------------------------------------------------------------


@pytest.fixture
def blocks(trips: Any) -> Any:
    class Blocks(trips):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("trip", self.book, rollback=True)
            ctx.step("report", self.do, f"report {result.ok}")

        def book(self, block):
            block.rollback_checkpoint("trip")
            block.step("flight", self.do, "flight", rollback=self.undo, rollback_max_retries=0)
            block.step("hotel", self.do, "hotel", rollback=self.undo)
            block.step("car", self.do, "car")

    return Blocks


def test_a_failed_block_is_entered_again_from_its_step(blocks: Any, outside: list[str], broken: set[str]) -> None:
    """What was undone in front of the step runs again: nothing is built on what is not there."""
    broken.add("car")
    handle = blocks.create("one")
    assert drive(handle) == "completed"
    assert outside == ["flight", "hotel", "undo hotel", "undo flight", "report False"]
    outside.clear()
    broken.clear()

    handle.replay_from("trip/car")

    assert drive(handle) == "completed"
    assert outside == ["flight", "hotel", "car", "report True"]


def test_behind_a_failed_block_its_outcome_stays(blocks: Any, outside: list[str], broken: set[str]) -> None:
    """It was given to the workflow."""
    broken.add("car")
    handle = blocks.create("one")
    drive(handle)
    outside.clear()
    broken.clear()

    handle.replay_from("report")

    assert drive(handle) == "completed"
    assert outside == ["report False"]


def test_a_block_that_is_being_undone_is_undone_first(blocks: Any, broken: set[str]) -> None:
    """A rollback that has begun is brought to its end."""
    broken |= {"car", "undo flight"}
    handle = blocks.create("one")
    assert drive(handle) == "rollback_failed"
    handle.recover()

    with pytest.raises(NotReplayableError, match="is not over"):
        handle.replay_from("trip/hotel")


def test_a_block_that_ended_well_owes_again_what_it_did(blocks: Any, outside: list[str], broken: set[str]) -> None:
    """It may fail this time, and is undone then."""
    handle = blocks.create("one")
    assert drive(handle) == "completed"
    outside.clear()
    broken.add("hotel")

    handle.replay_from("trip/hotel")

    assert drive(handle) == "completed"
    assert outside == ["undo flight", "report False"]


# Loops -------------------------------------------------------------------------------------------


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


# Crashes -----------------------------------------------------------------------------------------


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
