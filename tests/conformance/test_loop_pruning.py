"""LOOP-14 to 22: what a loop forgets, counted in the database."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_rivet import Actor, Break, workflow
from django_rivet.models import Entry
from django_rivet.testing import SimulatedCrash, crash_at, drive

pytestmark = pytest.mark.django_db


def counter(iterations: int, form: str = "iterator", breaks: bool = True, **options: Any) -> type[Actor[Any]]:
    """An actor that makes one step in each iteration, and breaks in the last one, or waits for ever in the next."""

    class Counter(Actor[Any]):
        @workflow
        def run(self, ctx):
            if form == "function":
                return ctx.loop("count", self.count, **options)
            for turn in ctx.loop("count", **options):
                if self.count(turn) is not None:
                    break
            return "done"

        def count(self, turn):
            if turn.iteration == iterations:
                turn.sleep("for ever", 10**9)
            turn.step("count", lambda: turn.iteration)
            return Break("done") if breaks and turn.iteration == iterations - 1 else None

    return Counter


def kept(actor: Any) -> set[int]:
    """The iterations of which anything is left in the database."""
    paths = Entry.objects.filter(actor_id=actor.id, path__startswith="count/").values_list("path", flat=True)
    return {int(path.split("/")[1]) for path in paths}


both_forms = pytest.mark.parametrize("form", ["iterator", "function"])


@both_forms
def test_loop_14_history_is_forgotten_at_every_interval(form):
    """With the default of 20, nothing goes before iteration 40 begins, and then 0 to 19 do."""
    before = counter(39, form, breaks=False).create("before")
    drive(before)
    assert kept(before) == set(range(40))

    after = counter(40, form, breaks=False).create("after")
    drive(after)
    assert kept(after) == set(range(20, 41))


@both_forms
def test_loop_14_history_is_forgotten_once_more_at_a_break(form):
    """When the loop is over the last 20 iterations are left."""
    count = counter(47, form).create("one")

    assert drive(count) == "completed"
    assert kept(count) == set(range(27, 47))


@both_forms
def test_loop_15_interval_2_and_five_iterations_leave_the_last_two(form):
    """Nothing below iteration 2 survives; the default size is the interval."""
    count = counter(5, form, history_prune_interval=2).create("one")

    assert drive(count) == "completed"
    assert kept(count) == {3, 4}


@both_forms
def test_loop_16_a_break_off_the_interval_prunes_as_well(form):
    """Interval 3, six iterations, the last of which breaks: only 3 to 5 survive."""
    count = counter(6, form, history_prune_interval=3).create("one")

    assert drive(count) == "completed"
    assert kept(count) == {3, 4, 5}


@both_forms
def test_loop_17_a_short_loop_keeps_everything(form):
    """Interval 10, three iterations: nothing is pruned."""
    count = counter(3, form, history_prune_interval=10).create("one")

    assert drive(count) == "completed"
    assert kept(count) == {0, 1, 2}


@both_forms
def test_loop_18_interval_1_keeps_only_the_newest(form):
    """After four iterations nothing below 2 is left, and the last one is."""
    count = counter(4, form, history_prune_interval=1).create("one")

    assert drive(count) == "completed"
    assert min(kept(count)) >= 2
    assert 3 in kept(count)


@both_forms
def test_loop_19_each_range_is_deleted_once(form):
    """Interval 3, nine iterations: exactly two deletions, and a later pass deletes nothing."""
    count = counter(9, form, history_prune_interval=3).create("one")

    with CaptureQueriesContext(connection) as queries:
        assert drive(count) == "completed"

    deletions = [q for q in queries.captured_queries if q["sql"].startswith("DELETE FROM django_rivet_entry")]
    assert len(deletions) == 2
    assert kept(count) == {6, 7, 8}


@both_forms
def test_loop_20_the_size_is_independent_of_the_interval(form):
    """Interval 2, size 5, ten iterations: 5 to 9 survive."""
    count = counter(10, form, history_prune_interval=2, history_size=5).create("one")

    assert drive(count) == "completed"
    assert kept(count) == {5, 6, 7, 8, 9}


def test_loop_20_a_size_below_the_interval_lets_history_grow_up_to_the_interval():
    """Interval 4, size 1: before iteration 8 the last prune was at 4, and left 3."""
    count = counter(7, breaks=False, history_prune_interval=4, history_size=1).create("one")

    drive(count)
    assert kept(count) == {3, 4, 5, 6, 7}


def test_loop_21_pruning_takes_all_below_an_iteration_and_leaves_the_loop():
    """Nested loops and blocks go with their iteration; the loop's own entry stays."""

    class Nested(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("begin", lambda: "begun")
            for turn in ctx.loop("count", history_prune_interval=2):
                turn.try_block("block", lambda block: block.step("in block", lambda: 1))
                for inner in turn.loop("inner"):
                    inner.step("in loop", lambda: 2)
                    break
                turn.sleep("rest", 0)
                if turn.iteration == 4:
                    break

    nested = Nested.create("one")

    assert drive(nested) == "completed"
    below = ["block/in block", "inner", "inner/0/in loop", "rest"]
    expected = {"begin", "count", "count/3"} | {f"count/{n}/{path}" for n in (3, 4) for path in below}
    assert set(Entry.objects.filter(actor_id=nested.id).values_list("path", flat=True)) == expected


@pytest.mark.parametrize("after", [False, True])
def test_loop_22_pruning_and_the_new_position_are_one_commit(after):
    """Whatever commit a worker dies at, the loop has either gone on and forgotten, or neither."""
    crashes = 0
    for n in range(1, 30):
        count = counter(9, history_prune_interval=3).create(f"crash {n}")
        try:
            with crash_at(n, after):
                drive(count)
        except SimulatedCrash:
            crashes += 1
            ended = Entry.objects.filter(actor_id=count.id, kind="iteration").values_list("path", flat=True)
            numbers = {int(path.split("/")[1]) for path in ended}
            done = max(numbers, default=-1) + 1
            is_over = Entry.objects.filter(actor_id=count.id, path="count", status="completed").exists()
            oldest = 6 if is_over else max(0, done - done % 3 - 3)
            assert numbers == set(range(oldest, done)), f"crash at commit {n}"
        assert drive(count) == "completed"
        assert kept(count) == {6, 7, 8}
    assert crashes >= 10


def test_loop_14_to_20_hold_only_before_the_first_iteration_that_owes_something(outside):
    """What owes a compensation keeps its whole history, however old, and so does what comes behind it.

    Should that iteration run again, those behind it are replayed: a completed step never runs twice.
    """

    class Seats(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("seats")
            for turn in ctx.loop("count", history_prune_interval=1):
                if turn.iteration % 2:
                    turn.step("reserve", int, turn.iteration, rollback=self.release)
                turn.step("look", int, turn.iteration)
                if turn.iteration == 6:
                    raise LookupError("no seat left")

        def release(self, rollback, seat):
            outside.append(seat)

    seats = Seats.create("one")

    assert drive(seats) == "failed"
    assert outside == [5, 3, 1]
    assert kept(seats) == {1, 2, 3, 4, 5, 6}
    assert seats.history()["count/1/look"].output == 1


@pytest.mark.parametrize("option", ["history_prune_interval", "history_size"])
@pytest.mark.parametrize("number", [0, -1, 2.5, "5", True])
def test_a_loop_refuses_numbers_that_it_could_not_count_by(option, number):
    """Intervals and sizes are whole numbers from 1; anything else fails the workflow with the option's name."""
    count = counter(3, **{option: number}).create("one")

    assert drive(count) == "failed"
    assert count.error.name == "InvalidStepError"
    assert option in count.error.message
