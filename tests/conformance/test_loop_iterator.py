"""The iterator form of a loop: asking for the next turn ends an iteration, leaving the `for` leaves it open."""

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db


def test_break_ends_the_loop_and_the_workflow_goes_on(outside):
    """After a `break` the context around the loop is free again, and the loop is on record as over."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("poll"):
                turn.step("look", outside.append, f"look {turn.iteration}")
                if turn.iteration == 1:
                    break
            ctx.step("report", outside.append, "report")

    poll = Poll.create("one")

    assert drive(poll) == "completed"
    assert outside == ["look 0", "look 1", "report"]
    assert str(poll.history()).splitlines() == [
        "poll  loop  completed",
        "  0  iteration  completed",
        "    look  step  completed  1 attempt",
        "  1  iteration  running",
        "    look  step  completed  1 attempt",
        "report  step  completed  1 attempt",
    ]


def test_return_inside_a_loop_completes_the_workflow():
    """The value that is returned from within is the workflow's output, and every loop around it is over."""

    class Search(Actor):
        @workflow
        def run(self, ctx):
            for row in ctx.loop("rows"):
                for cell in row.loop("cells"):
                    found = cell.step("look", lambda *place: place, row.iteration, cell.iteration)
                    if found == [1, 2]:
                        return found
                    if cell.iteration == 2:
                        break
            return None

    search = Search.create("one")

    assert drive(search) == "completed"
    assert search.output == [1, 2]
    assert {entry.path: entry.status for entry in search.history() if entry.kind == "loop"} == {
        "rows": "completed",
        "rows/0/cells": "completed",
        "rows/1/cells": "completed",
    }


def test_an_exception_that_is_caught_outside_leaves_the_loop(outside):
    """The loop is over where its exception is caught, and a replay goes the same way."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            try:
                for turn in ctx.loop("poll", state={"seen": 0}):
                    turn.state["seen"] += turn.step("look", self.look, turn.iteration)
                    if turn.state["seen"] == 2:
                        raise LookupError(f"after {turn.state['seen']}")
            except LookupError as error:
                ctx.step("note", outside.append, str(error))
            ctx.sleep("rest", 60)
            ctx.step("done", outside.append, "done")

        def look(self, iteration):
            outside.append(f"look {iteration}")
            return 1

    poll = Poll.create("one")
    assert drive(poll) == "sleeping"
    advance(61)

    assert drive(poll) == "completed"
    assert outside == ["look 0", "look 1", "after 2", "done"]
    assert poll.history()["poll"].status == "completed"


def test_a_failed_step_that_is_caught_outside_leaves_the_loop(outside):
    """A step's failure passes the loop like any other exception; on replay it is raised from its record."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            try:
                for turn in ctx.loop("poll"):
                    turn.step("look", self.look, turn.iteration)
            except CriticalError as error:
                ctx.sleep("rest", 60)
                ctx.step("note", outside.append, str(error))

        def look(self, iteration):
            outside.append(iteration)
            if iteration == 2:
                raise CriticalError("nothing left")

    poll = Poll.create("one")
    assert drive(poll) == "sleeping"
    advance(61)

    assert drive(poll) == "completed"
    assert outside == [0, 1, 2, "nothing left"]


def test_enumerate_hands_the_turns_through(outside):
    """What wraps the iterator makes no difference; the number that lasts over replays is `turn.iteration`."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            for index, turn in enumerate(ctx.loop("poll")):
                turn.step("look", outside.append, turn.iteration)
                if turn.iteration == 1:
                    turn.sleep("rest", 60)
                    outside.append(f"index {index}")
                if turn.iteration == 2:
                    break
            ctx.step("report", outside.append, "report")

    poll = Poll.create("one")
    assert drive(poll) == "sleeping"
    advance(61)

    assert drive(poll) == "completed"
    assert outside == [0, 1, "index 0", 2, "report"]


def test_a_generator_of_the_users_may_stand_around_the_loop(outside):
    """A function that yields from the loop closes it when it is closed itself."""

    def orders(ctx):
        for turn in ctx.loop("orders"):
            yield turn, turn.queue.next("order").body

    class Shop(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn, order in orders(ctx):
                turn.step("pack", outside.append, order)
                if order == "last":
                    break
            ctx.step("close", outside.append, "closed")

    shop = Shop.create("one")
    for order in ("first", "last"):
        shop.send("orders", order)
        drive(shop)

    assert shop.status == "completed"
    assert outside == ["first", "last", "closed"]


@pytest.mark.parametrize("interval", [1, 2, 20])
def test_names_bound_in_the_last_iteration_are_bound_again_on_replay(outside, interval):
    """A replay enters the iteration that was left, with the state it had, whatever was pruned."""

    class Shop(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("collect", state={"orders": []}, history_prune_interval=interval):
                order = turn.queue.next("order").body
                turn.state["orders"].append(order)
                everything = list(turn.state["orders"])
                number = turn.step("number", self.number, turn.iteration)
                if order == "c":
                    break
            ctx.sleep("rest", 60)
            return [order, everything, number, turn.iteration]

        def number(self, iteration):
            outside.append(iteration)
            return iteration * 10

    shop = Shop.create("one")
    for order in "abc":
        shop.send("orders", order)
    assert drive(shop) == "sleeping"
    advance(61)

    assert drive(shop) == "completed", str(shop.error)
    assert shop.output == ["c", ["a", "b", "c"], 20, 2]
    assert outside == [0, 1, 2]


def test_two_loops_after_each_other_each_go_on_where_they_are(outside):
    """While the second loop waits, each replay passes the first by its last iteration only."""

    class Twice(Actor):
        @workflow
        def run(self, ctx):
            for name in ("first", "second"):
                for turn in ctx.loop(name):
                    outside.append(f"enter {name} {turn.iteration}")
                    turn.step("count", int)
                    if turn.iteration == 2:
                        break
                    if name == "second":
                        turn.sleep("rest", 60)

    twice = Twice.create("one")
    drive(twice)
    outside.clear()
    advance(61)

    assert drive(twice) == "sleeping"
    assert outside == ["enter first 2", "enter second 0", "enter second 1"]
