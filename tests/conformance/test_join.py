"""JOIN: what the branches return, and what a replay makes of their records."""

import pytest
from django.db import connection

from django_rivet import Actor, Break, Continue, Queue, workflow
from django_rivet.models import Entry
from django_rivet.testing import advance, count_commits, drive
from tests.conformance.desks import desk
from tests.conformance.modes import IN_BOTH_MODES, IN_THREADS

pytestmark = IN_BOTH_MODES


def test_the_mode_is_what_it_says(mode):
    """Without this the whole folder could test one mode twice."""
    assert connection.in_atomic_block == (mode != IN_THREADS)


def test_join_01_the_result_maps_each_branch_to_its_value(outside):
    """In the order of the code, whichever branch was done first; the workflow gets stored copies."""
    mine = ["a list"]

    def work(self, ctx):
        results = ctx.join(
            "all",
            {
                "late": lambda branch: (branch.step("one", lambda: 1), branch.step("two", lambda: 2)),
                "none": lambda branch: None,
                "early": lambda branch: mine,
            },
        )
        outside.append(list(results.items()))
        assert results["early"] is not mine
        return results

    actor = desk(work)

    assert drive(actor) == "completed"

    assert outside == [[("late", [1, 2]), ("none", None), ("early", ["a list"])]]
    assert actor.output == {"late": [1, 2], "none": None, "early": ["a list"]}
    assert str(actor.history()).splitlines()[0] == "all  join  completed"
    assert {entry.path: (entry.kind, entry.status) for entry in actor.history()} == {
        "all": ("join", "completed"),
        "all/late": ("branch", "completed"),
        "all/late/one": ("step", "completed"),
        "all/late/two": ("step", "completed"),
        "all/none": ("branch", "completed"),
        "all/early": ("branch", "completed"),
    }
    assert actor.history()["all"].output == actor.output


def test_join_01_names_are_those_of_a_branch_alone(outside):
    """The same name in each branch, and outside: four entries."""

    def work(self, ctx):
        ctx.step("pay", outside.append, "root")
        ctx.join("all", {name: lambda b, n=name: b.step("pay", outside.append, n) for name in ("a", "b", "c")})

    actor = desk(work)

    assert drive(actor) == "completed"
    assert sorted(outside) == ["a", "b", "c", "root"]


def test_join_04_a_branch_that_is_over_is_not_run_again(outside):
    """Neither its steps nor its code, in this pass and in all later ones; nor are completed steps of open branches."""

    def work(self, ctx):
        results = ctx.join("all", {"quick": self.quick, "slow": self.slow})
        ctx.sleep("after", 60)
        outside.append("end")
        return results

    class Desk(Actor):
        @workflow
        def run(self, ctx):
            return work(self, ctx)

        def quick(self, branch):
            outside.append("code of quick")
            return branch.step("do", lambda: outside.append("quick"))

        def slow(self, branch):
            first = branch.step("first", lambda: outside.append("first") or 1)
            branch.sleep("nap", 60)
            return first + branch.step("second", lambda: outside.append("second") or 2)

    actor = Desk.create("one")

    assert drive(actor) == "sleeping"
    assert sorted(outside) == ["code of quick", "first", "quick"]
    assert actor.history()["all/quick"].status == "completed"
    assert actor.history()["all"].status == "running"

    del outside[:]
    advance(61)
    assert drive(actor) == "sleeping"
    assert outside == ["second"]
    assert actor.history()["all"].status == "completed"

    advance(61)
    assert drive(actor) == "completed"
    assert outside == ["second", "end"]
    assert actor.output == {"quick": None, "slow": 3}


def test_join_05_joins_nest_in_joins(outside):
    """To any depth; inner results are values of the branch around them."""

    def inner(branch, depth):
        if depth == 0:
            return branch.step("leaf", lambda: outside.append("leaf") or 1)
        results = branch.join("inner", {side: lambda b: inner(b, depth - 1) for side in ("left", "right")})
        branch.sleep("nap", 10)
        return sum(results.values()) + branch.step("add", lambda: 1)

    actor = desk(lambda self, ctx: ctx.join("outer", {side: lambda b: inner(b, 2) for side in ("left", "right")}))

    for _ in range(2):
        assert drive(actor) == "sleeping"
        advance(11)
    assert drive(actor) == "completed"

    assert actor.output == {"left": 7, "right": 7}
    assert outside == ["leaf"] * 8
    assert actor.history()["outer/left/inner/right/inner/left/leaf"].status == "completed"


def test_join_12_the_join_is_on_record_before_its_branches_start():
    """With what was deferred until then: what a branch hands to the outside rests on nothing that could change."""
    seen = []

    def work(self, ctx):
        number = ctx.random("number")

        def look():
            seen.append(sorted(Entry.objects.filter(actor_id=self.id).values_list("path", "status")))

        ctx.join("all", {"a": lambda b: b.step("look", look, atomic=False)})
        return number

    actor = desk(work)

    assert drive(actor) == "completed"
    assert seen == [[("all", "running"), ("number", "completed")]]


def test_join_12_what_was_settled_is_on_record_behind_it():
    """The ends of the branches ride with the end of the join."""

    def work(self, ctx):
        ctx.join("all", {name: lambda b: b.step("do", lambda: None) for name in "ab"})
        ctx.sleep("after", 60)

    actor = desk(work)
    drive(actor)

    assert {entry.path: entry.status for entry in actor.history() if entry.path.count("/") < 2} == {
        "all": "completed",
        "all/a": "completed",
        "all/b": "completed",
        "after": "pending",
    }


def test_join_15_no_branches_give_an_empty_dict_at_once():
    """Nothing is committed for it by itself: it is claimed, and released with the record."""
    actor = desk(lambda self, ctx: ctx.join("none", {}))

    with count_commits() as commits:
        assert drive(actor) == "completed"

    assert actor.output == {}
    assert commits.count == 2
    assert actor.history()["none"].status == "completed"


def test_join_01_branches_without_steps_are_recorded(outside):
    """Their code is not entered again once the join is on record as over."""

    def work(self, ctx):
        value = ctx.join("all", {"a": lambda b: outside.append("a") or 1, "b": lambda b: outside.append("b") or 2})
        ctx.sleep("after", 60)
        return value

    actor = desk(work)
    drive(actor)
    advance(61)

    assert drive(actor) == "completed"
    assert sorted(outside) == ["a", "b"]
    assert actor.output == {"a": 1, "b": 2}


def test_loop_08_a_join_per_iteration_with_branches_that_depend_on_data(outside):
    """Each iteration has the branches that its message asks for; a replay takes them from the same message."""

    class Kitchen(Actor):
        orders = Queue(list[str])

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders", state=[], history_prune_interval=1):
                dishes = turn.queue.next("order", ["orders"]).body
                cooked = turn.join("cook", {dish: lambda b, d=dish: self.cook(b, d) for dish in dishes})
                turn.state += sorted(cooked.values())
                if not dishes:
                    return turn.state
            return None

        def cook(self, branch, dish):
            branch.step("heat", outside.append, dish)
            branch.sleep("wait", 5)
            return branch.step("serve", str.upper, dish)

    kitchen = Kitchen.create("one")
    for dishes in (["pie"], ["soup", "stew", "tea"], ["pie", "soup"], []):
        kitchen.send("orders", dishes)

    for _ in range(3):
        assert drive(kitchen) == "sleeping"
        advance(6)
    assert drive(kitchen) == "completed"

    assert kitchen.output == ["PIE", "SOUP", "STEW", "TEA", "PIE", "SOUP"]
    assert sorted(outside) == ["pie", "pie", "soup", "soup", "stew", "tea"]
    assert not [entry.path for entry in kitchen.history() if entry.path.startswith(("orders/0", "orders/1"))]


def test_loop_08_a_loop_in_each_branch(outside):
    """Each with its own position and state, in both forms; what is old in one branch is forgotten there."""

    def counting(branch, stop):
        for turn in branch.loop("turns", state=0, history_prune_interval=2):
            turn.step("count", outside.append, stop)
            turn.sleep("nap", 1)
            turn.state += 1
            if turn.state == stop:
                return turn.state
        return None

    def function_form(branch):
        def turn(turn, state):
            turn.sleep("nap", 1)
            turn.step("count", outside.append, "f")
            return Break(state) if state == 12 else Continue(state + 1)

        return branch.loop("turns", turn, state=10, history_prune_interval=2)

    actor = desk(
        lambda self, ctx: ctx.join(
            "all", {"two": lambda b: counting(b, 2), "f": function_form, "five": lambda b: counting(b, 5)}
        )
    )

    for _ in range(5):
        assert drive(actor) == "sleeping"
        advance(1.5)
    assert drive(actor) == "completed"

    assert actor.output == {"two": 2, "f": 12, "five": 5}
    assert (outside.count(2), outside.count("f"), outside.count(5)) == (2, 3, 5)
    assert [entry.path for entry in actor.history() if entry.path.startswith("all/five/turns/0")] == []


@pytest.mark.parametrize("kind", ["plain", "scoped"])
def test_join_05_a_join_in_a_block_gives_its_results_to_the_block(kind):
    """Both forms, and on each replay."""

    def work(self, ctx):
        result = ctx.try_block(
            "block",
            lambda block: block.join("all", {n: lambda b: b.step("do", lambda: 1) for n in "ab"}),
            rollback=kind == "scoped",
        )
        ctx.sleep("after", 60)
        return [result.ok, result.value]

    actor = desk(work)
    drive(actor)
    advance(61)

    assert drive(actor) == "completed"
    assert actor.output == [True, {"a": 1, "b": 1}]
