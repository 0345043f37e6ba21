"""JOIN: contexts in the wrong hands, wrong arguments, and code that has other branches than the record."""

from contextlib import suppress

import pytest

from django_rivet import Actor, workflow
from django_rivet.testing import advance, drive
from tests.conformance.desks import desk
from tests.conformance.modes import IN_BOTH_MODES

pytestmark = IN_BOTH_MODES


@pytest.mark.parametrize("swallows", [False, True])
def test_the_context_around_the_join_is_not_for_its_branches(outside, swallows):
    """Neither for a step nor for a message; the workflow fails, whatever the branch does with the error."""

    def work(self, ctx):
        ctx.join("all", {"wrong": lambda b: wrong(ctx), "good": lambda b: b.step("do", outside.append, "good")})
        ctx.step("after", outside.append, "after")

    def wrong(ctx):
        with suppress(*[Exception] if swallows else []):
            ctx.step("stolen", outside.append, "stolen")
        return 1

    actor = desk(work)

    assert drive(actor) == "failed"

    assert actor.error.name == "EntryInProgressError"
    assert outside == ["good"]


def test_the_queue_of_the_context_around_is_not_for_branches_either():
    """The message stays where it is."""
    actor = desk(lambda self, ctx: ctx.join("all", {"wrong": lambda b: ctx.queue.next("letter").body}))
    actor.send("letters", "a")

    assert drive(actor) == "failed"
    assert actor.error.name == "EntryInProgressError"


@pytest.mark.parametrize("swallows", [False, True])
def test_the_context_of_a_branch_is_not_for_the_code_behind_the_join(outside, swallows):
    """It has ended; nothing runs with it, and the workflow does not get past it."""
    kept = []

    def branch(b):
        kept.append(b)
        b.step("do", outside.append, "a")

    def work(self, ctx):
        ctx.join("all", {"a": branch})
        with suppress(*[Exception] if swallows else []):
            kept[0].step("late", outside.append, "late")
        ctx.step("after", outside.append, "after")

    actor = desk(work)

    assert drive(actor) == "failed"
    assert actor.error.name == "EntryInProgressError"
    assert outside == ["a"]


@pytest.mark.parametrize("swallows", [False, True])
def test_the_context_of_a_branch_is_not_for_its_sibling(outside, swallows):
    """Whether that one is over or still runs."""
    kept = []

    def first(branch):
        kept.append(branch)
        branch.step("one", outside.append, "one")
        branch.step("two", outside.append, "two")

    def second(branch):
        with suppress(*[Exception] if swallows else []):
            kept[0].step("stolen", outside.append, "stolen")
        branch.step("mine", outside.append, "mine")

    actor = desk(lambda self, ctx: ctx.join("all", {"first": first, "second": second}))

    assert drive(actor) == "failed"
    assert actor.error.name == "EntryInProgressError"
    assert "stolen" not in outside
    assert "mine" not in outside


def test_a_join_in_the_body_of_a_step_is_refused(outside):
    """A body calls no verbs."""

    def work(self, ctx):
        ctx.step("do", lambda: ctx.join("all", {"a": lambda b: outside.append("a")}), max_retries=0)

    actor = desk(work)

    assert drive(actor) == "failed"
    assert "EntryInProgressError" in str(actor.error)
    assert outside == []


@pytest.mark.parametrize(
    ("branches", "says"),
    [
        ([lambda b: 1], "branches must be a dict"),
        (None, "branches must be a dict"),
        ({"a": 1}, "the branch 'a' cannot be called"),
        ({"a/b": int}, "must not contain '/'"),
        ({"": int}, "must have 1 to 200 characters"),
        ({1: int}, "must be a string, not int"),
        ({"a\n": int}, "control characters"),
    ],
)
def test_branches_are_a_dict_of_names_and_functions(outside, branches, says):
    """What is wrong, and where; nothing is on record of it, and none of the others has run."""

    def work(self, ctx):
        if isinstance(branches, dict):
            ctx.join("all", {"good": lambda b: outside.append("good"), **branches})
        else:
            ctx.join("all", branches)

    actor = desk(work)

    assert drive(actor) == "failed"
    assert actor.error.name == "InvalidStepError"
    assert says in actor.error.message
    assert "all" in actor.error.message
    assert outside == []
    assert list(actor.history()) == []


def test_a_name_is_used_once_in_its_scope():
    """A join's as well."""
    actor = desk(lambda self, ctx: (ctx.join("all", {"a": lambda b: 1}), ctx.join("all", {"a": lambda b: 1})))

    assert drive(actor) == "diverged"
    assert "'all' was used before" in actor.error.message


# Other branches than those on record -------------------------------------------------------------


@pytest.mark.parametrize("stands", ["running", "completed", "failed"])
@pytest.mark.parametrize("branches", ["abc", "a", "ac", ""])
def test_join_13_other_branches_than_those_on_record_diverge(outside, stands, branches):
    """Differs on purpose from the reference, which leaves a new one out in silence. Nothing new runs.

    With the old code back it goes on.
    """
    names = ["ab"]

    def branch(b, name):
        if stands == "failed" and name == "b":
            raise KeyError(name)
        outside.append(name)
        if stands == "running":
            b.sleep("nap", 60)
        return b.step("do", outside.append, f"do {name}")

    def work(self, ctx):
        with suppress(Exception):
            ctx.join("all", {name: lambda b, n=name: branch(b, n) for name in names[-1]})
        ctx.sleep("after", 60)

    actor = desk(work)
    assert drive(actor) == "sleeping"
    before = [(e.path, e.status, e.seq) for e in actor.history()]
    done = list(outside)
    names.append(branches)
    advance(61)

    assert drive(actor) == "diverged"
    assert outside == done
    assert [(e.path, e.status, e.seq) for e in actor.history()] == before
    assert "is recorded with the branches 'a', 'b', and the code now has" in actor.error.message

    names.append("ba")
    advance(2)
    drive(actor)
    advance(61)
    assert drive(actor) == "completed"


@pytest.mark.parametrize("kind", ["step", "sleep", "loop"])
def test_join_13_a_join_is_no_other_kind_of_entry(outside, kind):
    """Nor the other way round."""
    verbs = {
        "step": lambda ctx: ctx.step("all", int),
        "sleep": lambda ctx: ctx.sleep("all", 0),
        "loop": lambda ctx: next(iter(ctx.loop("all"))),
        "join": lambda ctx: ctx.join("all", {"a": lambda b: outside.append("branch")}),
    }
    deployed = [kind]

    def work(self, ctx):
        verbs[deployed[-1]](ctx)
        ctx.sleep("after", 60)

    first = desk(work)
    drive(first)
    deployed.append("join")
    advance(61)
    assert drive(first) == "diverged"
    assert outside == []


def test_join_13_a_branch_that_does_not_reach_its_records_diverges(outside):
    """As any scope: it ends without the step that it has completed before."""
    deployed = ["first"]

    class Desk(Actor):
        @workflow
        def run(self, ctx):
            ctx.join("all", {"a": self.branch, "b": lambda b: b.sleep("nap", 60)})
            ctx.step("after", outside.append, "after")

        def branch(self, b):
            if deployed[-1] == "first":
                b.step("do", outside.append, "do")
                b.sleep("nap", 60)
            return 1

    actor = Desk.create("one")
    drive(actor)
    deployed.append("second")
    advance(61)

    assert drive(actor) == "diverged"
    assert "'do'" in actor.error.message
    assert "all/a" in actor.error.message
    assert outside == ["do"]


def test_join_13_a_new_step_in_front_of_recorded_ones_of_its_branch_diverges(outside):
    """Behind them it may come, and in another branch that is not that far it may come as well."""
    deployed = [""]

    def branch(b, name):
        if deployed[-1] == name:
            b.step("new", outside.append, f"new {name}")
        b.step("old", outside.append, f"old {name}") if name == "a" else None
        b.sleep("nap", 60)

    actor = desk(lambda self, ctx: ctx.join("all", {name: lambda b, n=name: branch(b, n) for name in "ab"}))
    drive(actor)
    deployed.append("a")
    advance(61)

    assert drive(actor) == "diverged"
    assert "new a" not in outside
    deployed.append("")
    advance(2)
    assert drive(actor) == "completed"
