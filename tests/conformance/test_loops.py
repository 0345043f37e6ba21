"""LOOP-01 to 10: a loop's two forms, its state and its end; iterations are scopes."""

import pytest

from django_rivet import Actor, Break, Continue, Queue, workflow
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db


def test_loop_01_a_stateful_loop_hands_its_state_on_until_it_breaks():
    """`Continue(state)` is what the next iteration gets, and `Break(value)` is what the loop gives back."""

    class Sum(Actor):
        @workflow
        def run(self, ctx):
            return ctx.loop("add", self.add, state={"next": 1, "sum": 0})

        def add(self, turn, state):
            if state["next"] > 4:
                return Break(state["sum"])
            total = turn.step("add", lambda: state["sum"] + state["next"])
            return Continue({"next": state["next"] + 1, "sum": total})

    total = Sum.create("one")

    assert drive(total) == "completed"
    assert total.output == 10


def test_loop_02_the_short_form_takes_a_function_of_the_turn_alone(outside):
    """A loop without state calls `fn(turn)`."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            return ctx.loop("poll", self.look)

        def look(self, turn):
            turn.step("look", outside.append, turn.iteration)
            return Break("found") if turn.iteration == 2 else Continue()

    poll = Poll.create("one")

    assert drive(poll) == "completed"
    assert poll.output == "found"
    assert outside == [0, 1, 2]


def test_loop_03_returning_nothing_means_go_on_where_there_is_no_state(outside):
    """A function of a stateless loop need not say `Continue()`."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            return ctx.loop("poll", self.look)

        def look(self, turn):
            outside.append(turn.iteration)
            if turn.iteration == 2:
                return Break()
            return None

    poll = Poll.create("one")

    assert drive(poll) == "completed"
    assert outside == [0, 1, 2]


@pytest.mark.parametrize("returned", [None, 7, {"next": 2}])
def test_loop_04_a_stateful_loop_must_say_how_it_goes_on(outside, returned):
    """Anything but `Continue` and `Break` fails a workflow with state, once and without a retry."""

    class Sum(Actor):
        @workflow
        def run(self, ctx):
            return ctx.loop("add", self.add, state={"next": 1})

        def add(self, turn, state):
            outside.append(state["next"])
            return returned

    total = Sum.create("one")

    assert drive(total) == "failed"
    assert total.error.name == "WorkflowUsageError"
    assert "loop 'add'" in total.error.message
    assert "Continue(state)" in total.error.message
    assert outside == [1]


def test_loop_05_a_loop_that_broke_with_nothing_is_not_entered_again(outside):
    """The record of the end counts, not its value."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            found = ctx.loop("poll", self.look)
            ctx.sleep("rest", 60)
            return found

        def look(self, turn):
            outside.append("look")
            return Break(None)

    poll = Poll.create("one")
    assert drive(poll) == "sleeping"
    advance(61)

    assert drive(poll) == "completed"
    assert poll.output is None
    assert outside == ["look"]


def test_loop_06_names_repeat_from_iteration_to_iteration(outside):
    """Every iteration is a scope of its own, for steps, sleeps and waits alike."""

    class Mail(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("read"):
                letter = turn.queue.next("letter").body
                turn.sleep("rest", 0)
                turn.step("read", outside.append, letter)
                if letter == "c":
                    return "all read"
            return None

    mail = Mail.create("one")
    for letter in "abc":
        mail.send("letters", letter)

    assert drive(mail) == "completed"
    assert outside == ["a", "b", "c"]


@pytest.mark.parametrize("mode", ["all at once", "one by one"])
def test_loop_07_a_loop_inside_a_loop_handles_every_item_once(outside, mode):
    """Each order's items are handled once, whether the orders wait in the queue or come later."""

    class Orders(Actor):
        orders = Queue(list)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                items = turn.queue.next("order").body
                for each in turn.loop("items", state={"next": 0}):
                    if each.state["next"] == len(items):
                        break
                    each.step("pack", outside.append, items[each.state["next"]])
                    each.state["next"] += 1
                turn.step("ship", outside.append, "shipped")

    orders = Orders.create("one")
    for items in (["a", "b"], [], ["c"]):
        orders.send("orders", items)
        if mode == "one by one":
            assert drive(orders) == "sleeping"

    assert drive(orders) == "sleeping"
    assert outside == ["a", "b", "shipped", "shipped", "c", "shipped"]


@pytest.mark.parametrize("form", ["iterator", "function"])
def test_loop_10_an_error_in_an_iteration_leaves_the_loop_as_it_is(form):
    """What an iteration raises is what fails the workflow, of its own type."""

    class Poll(Actor):
        @workflow
        def run(self, ctx):
            with pytest.raises(KeyError) as caught:
                self.poll(ctx)
            raise caught.value

        def poll(self, ctx):
            if form == "function":
                ctx.loop("poll", self.look)
            for turn in ctx.loop("poll again"):
                self.look(turn)

        def look(self, turn):
            raise KeyError("nothing here")

    poll = Poll.create("one")

    assert drive(poll) == "failed"
    assert (poll.error.name, poll.error.message) == ("KeyError", "'nothing here'")
