"""REPLAY: an operator sets history aside, and the workflow runs again from there."""

from __future__ import annotations

from typing import Any

import pytest

from django_rivet import Actor, CriticalError, NotReplayableError, Queue, UnknownEntryError, current_step, workflow
from django_rivet.testing import advance, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def steps_of(handle: Any, generation: int | None = None) -> list[str]:
    return [entry.path for entry in handle.history(generation) if entry.kind == "step"]


def letters(outside: list[Any]) -> type[Actor[Any]]:
    class Letters(undoable(outside)):
        @workflow
        def run(self, ctx):
            values = [ctx.step(name, self.do, name) for name in ("a", "b", "c")]
            return [*values, len(outside)]

    return Letters


def test_replay_01_that_step_and_all_later_history_is_set_aside(outside):
    """Its output is dropped, it is due at once, and the next drive executes from there."""
    handle = letters(outside).create("one")
    assert drive(handle) == "completed"
    assert handle.output == ["a", "b", "c", 3]

    handle.replay_from("b")

    seen = handle.snapshot()
    assert (seen.status, seen.output, seen.error, seen.waiting_for) == ("sleeping", None, None, None)
    assert seen.wake_at is not None
    assert steps_of(handle) == ["a"]
    assert drive(handle) == "completed"
    assert outside == ["do a", "do b", "do c", "do b", "do c"]
    assert handle.output == ["a", "b", "c", 5]


def test_replay_01_what_is_set_aside_stays_readable(outside):
    """As the generation that it was; another begins."""
    handle = letters(outside).create("one")
    drive(handle)
    before = str(handle.history())

    handle.replay_from(handle.history()["b"])
    drive(handle)

    assert str(handle.history(generation=0)) == before
    assert str(handle.history(generation=1)) == str(handle.history()) == before
    assert handle.snapshot().generation == 1


def test_replay_01_an_error_is_dropped(outside):
    """A failed workflow runs again from the step, with fresh attempts."""
    broken = ["yes"]

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("a", self.do, "a")
            ctx.step("b", self.reach, max_retries=0)

        def reach(self):
            if broken:
                raise OSError("down")

    handle = Trip.create("one")
    assert drive(handle) == "failed"
    broken.clear()

    handle.replay_from("b")
    assert handle.error is None
    assert drive(handle) == "completed"

    assert outside == ["do a"]
    assert [e.status for e in handle.history(generation=0)] == ["completed", "failed"]
    assert handle.history()["b"].attempts == 1


def test_replay_02_without_a_step_everything_is_set_aside(outside):
    """It begins at the beginning."""
    handle = letters(outside).create("one")
    drive(handle)

    handle.replay_from()

    assert steps_of(handle) == []
    assert steps_of(handle, generation=0) == ["a", "b", "c"]
    assert drive(handle) == "completed"
    assert outside == ["do a", "do b", "do c"] * 2


def days(outside: list[Any]) -> type[Actor[Any]]:
    class Days(undoable(outside)):
        go = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days", state=0):
                turn.step("rise", self.do, f"rise {turn.iteration} with {turn.state}")
                turn.step("work", self.do, f"work {turn.iteration}")
                turn.state += 10
                if self.key == "waits" and turn.iteration == 2:
                    turn.queue.next("go")
                if turn.iteration == 3:
                    break
            ctx.step("rest", self.do, "rest")

    return Days


def test_replay_03_a_step_in_a_loop_runs_again_in_its_own_iteration(outside):
    """Differs on purpose: earlier iterations are records, with state of their own, and are not done a second time."""
    handle = days(outside).create("one")
    assert drive(handle) == "completed"
    outside.clear()

    handle.replay_from("days/1/work")
    assert drive(handle) == "completed"

    assert outside == [
        "do work 1",
        "do rise 2 with 20",
        "do work 2",
        "do rise 3 with 30",
        "do work 3",
        "do rest",
    ]


def test_replay_03_from_the_first_step_of_a_loop_the_whole_loop_runs_again(outside):
    """That is how one rewinds it; the state is what it began with."""
    handle = days(outside).create("one")
    drive(handle)
    before = list(outside)

    handle.replay_from("days/0/rise")
    drive(handle)

    assert outside == before * 2
    assert str(handle.history()) == str(handle.history(generation=0))


def test_replay_03_of_nested_loops_the_outer_one_stays_where_it_is(outside):
    """The iterations around the step are open again, each with the state that it began with."""

    class Nested(undoable(outside)):
        @workflow
        def run(self, ctx):
            for week in ctx.loop("weeks", state=100):
                for day in week.loop("days", state=week.state):
                    day.step("do", self.do, f"{week.iteration}/{day.iteration} {week.state} {day.state}")
                    day.state += 1
                    if day.iteration == 1:
                        break
                week.state += 10
                if week.iteration == 2:
                    break

    handle = Nested.create("one")
    drive(handle)
    before, outside[:] = list(outside), []

    handle.replay_from("weeks/1/days/1/do")
    assert drive(handle) == "completed"

    assert outside == before[3:]


def test_replay_04_also_while_that_loop_is_waiting(outside):
    """The wait is set aside with what came after the step."""
    handle = days(outside).create("waits")
    assert drive(handle) == "sleeping"
    outside.clear()

    handle.replay_from("days/1/work")
    assert drive(handle) == "sleeping"

    assert outside == ["do work 1", "do rise 2 with 20", "do work 2"]
    assert handle.waiting_for == []
    handle.send("go", "on")
    assert drive(handle) == "completed"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nothing", "is not in the history of .*; its last steps are 'rest', 'days/3/work'"),
        ("", "is not in the history"),
        ("days", "is no step but of kind 'loop'"),
        ("days/1", "is no step but of kind 'iteration'"),
    ],
)
def test_replay_05_an_unknown_entry_is_an_error(outside, path, reason):
    """So is one that is no step. Nothing has happened."""
    handle = days(outside).create("one")
    drive(handle)

    with pytest.raises(UnknownEntryError, match=reason) as caught:
        handle.replay_from(path)

    assert isinstance(caught.value, ValueError)
    assert (handle.status, handle.snapshot().generation) == ("completed", 0)


def test_replay_06_loops_that_are_merely_waiting_do_not_block(outside):
    """Differs on purpose: the outer loop counts as running while its inner one waits, and nobody runs anything."""

    class Nested(undoable(outside)):
        @workflow
        def run(self, ctx):
            for week in ctx.loop("weeks"):
                week.step("plan", self.do, "plan")
                for day in week.loop("days"):
                    day.step("work", self.do, "work")
                    day.sleep("night", 60)

    handle = Nested.create("one")
    drive(handle)
    advance(61)
    assert drive(handle) == "sleeping"
    outside.clear()

    handle.replay_from("weeks/0/days/1/work")
    assert drive(handle) == "sleeping"

    assert outside == ["do work"]


def test_replay_07_what_was_recorded_before_the_step_stays_whatever_it_is(outside):
    """A message, a sleep, a value: the numbers of the records decide, so no message that was taken before is lost."""

    class Order(undoable(outside)):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            order = ctx.queue.next("order").body
            number = ctx.random("number")
            ctx.step("reserve", self.do, f"reserve {order}")
            ctx.sleep("night", 60)
            ctx.step("charge", self.do, f"charge {order} {number}")
            return [order, number]

    handle = Order.create("one")
    handle.send("orders", "book")
    drive(handle)
    advance(61)
    assert drive(handle) == "completed"
    output = handle.output

    handle.replay_from("charge")

    assert [e.path for e in handle.history()] == ["order", "number", "reserve", "night"]
    assert drive(handle) == "completed"
    assert handle.output == output
    assert len(outside) == 3


def test_replay_07_a_message_whose_receive_is_set_aside_goes_back_to_its_place(outside):
    """In front of those that were sent after it, under its own id."""

    class Order(undoable(outside)):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("open", self.do, "open")
            for turn in ctx.loop("orders"):
                message = turn.queue.next("order")
                turn.step("take", self.do, [message.id, message.body])

    handle = Order.create("one")
    sent = [handle.send("orders", body) for body in ("first", "second")]
    drive(handle)
    handle.replay_from("open")
    sent.append(handle.send("orders", "third"))

    drive(handle)

    taken = [f"do {[receipt.id, body]}" for receipt, body in zip(sent, ("first", "second", "third"), strict=True)]
    assert outside == ["do open", *taken[:2], "do open", *taken]


def test_replay_07_what_was_completed_is_not_taken_again(outside):
    """Whoever sent it has had the answer."""

    class Desk(undoable(outside)):
        questions = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("open", self.do, "open")
            for turn in ctx.loop("questions"):
                question = turn.queue.next("question", completable=True)
                turn.step("look up", self.do, question.body)
                if question.body == "third":
                    turn.sleep("think", 60)
                question.complete("yes")

    handle = Desk.create("one")
    for body in ("first", "second", "third"):
        handle.send("questions", body)
    drive(handle)
    outside.clear()

    handle.replay_from("open")
    drive(handle)

    assert outside == ["do open", "do third"]


def test_replay_08_a_paused_actor_is_woken_by_whoever_resumes_it(outside):
    """What `schedule_alarm=False` was for: it is set back, and nothing runs until then."""
    handle = letters(outside).create("one")
    drive(handle)
    handle.replay_from("b")
    handle.pause()

    handle.replay_from("a")
    assert drive(handle) == "paused"
    assert len(outside) == 3

    assert handle.resume()
    assert drive(handle) == "completed"
    assert outside == ["do a", "do b", "do c"] * 2


def test_replay_09_the_input_is_kept_and_nothing_is_undone(outside):
    """Neither now, nor by a rollback that comes later; the earlier generation says so."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "flight", rollback=self.undo)
            if "do hotel" not in outside:
                ctx.step("hotel", self.do, "hotel", rollback=self.undo)
                ctx.sleep("night", 60)
            ctx.step("car", self.fail)

    handle = Trip.create("one")
    assert drive(handle) == "sleeping"

    handle.replay_from("hotel")
    assert outside == ["do flight", "do hotel"]
    assert drive(handle) == "failed"

    assert outside == ["do flight", "do hotel", "undo flight"]
    aside = handle.history(generation=0)["hotel"].rollback
    assert (aside.status, aside.note) == ("skipped", "set aside by replay_from()")


def test_replay_09_a_cancelled_workflow_stays_cancelled(outside):
    """Differs on purpose: whoever cancelled it was told that it would be over."""
    handle = letters(outside).create("one")
    handle.cancel()

    with pytest.raises(NotReplayableError, match="is cancelled, and stays so"):
        handle.replay_from()

    assert drive(handle) == "cancelled"
    assert outside == []


def test_replay_09_steps_keep_their_idempotency_keys_but_for_those_that_were_undone(outside):
    """A compensation changes the key, whether the undone step stands before the one that is named or behind it."""
    keys: dict[str, list[str]] = {}

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("passport", self.note, "passport")
            ctx.step("flight", self.note, "flight", rollback=self.undo)
            ctx.step("map", self.note, "map")
            ctx.step("hotel", self.note, "hotel", rollback=self.undo)
            ctx.step("car", self.book_car)

        def note(self, name):
            keys.setdefault(name, []).append(current_step().idempotency_key)

        def book_car(self):
            self.note("car")
            if len(keys["car"]) == 1:
                raise CriticalError("no car")

    handle = Trip.create("one")
    assert drive(handle) == "failed"
    assert outside == ["undo None", "undo None"]

    handle.replay_from("map")
    assert drive(handle) == "completed"

    assert {name: (len(each), len(set(each))) for name, each in keys.items()} == {
        "passport": (1, 1),
        "flight": (2, 2),
        "map": (2, 1),
        "hotel": (2, 2),
        "car": (2, 1),
    }

    # A second replay keeps the keys of the second run.
    handle.replay_from("flight")
    assert drive(handle) == "completed"
    assert {name: len(set(each)) for name, each in keys.items()} == {
        "passport": 1,
        "flight": 2,
        "map": 1,
        "hotel": 2,
        "car": 1,
    }
