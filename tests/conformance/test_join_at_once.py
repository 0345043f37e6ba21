"""JOIN: branches that run at the same time, each proven by a meeting that could not take place otherwise."""

import threading

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, CriticalError, workflow
from django_rivet.testing import advance, drive
from tests.conformance.desks import desk
from tests.conformance.modes import rendezvous, wait_for
from tests.journeys.workers import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_join_01_bodies_of_branches_run_at_the_same_time(atomic):
    """Each of three waits for the two others; one after another none would end."""
    meeting = rendezvous(3)
    actor = desk(lambda self, ctx: ctx.join("all", {n: lambda b: b.step("meet", meet, atomic=atomic) for n in "abc"}))

    def meet():
        meeting.wait()
        return threading.current_thread() is not threading.main_thread()

    assert drive(actor) == "completed"
    assert actor.output == {"a": True, "b": True, "c": True}


def test_join_01_branches_of_inner_joins_run_at_the_same_time_as_those_around():
    """Four leaves in two branches, and a fifth beside them."""
    meeting = rendezvous(5)

    def half(branch):
        return branch.join("inner", {n: lambda b: b.step("meet", lambda: meeting.wait() >= 0) for n in "ab"})

    actor = desk(
        lambda self, ctx: ctx.join(
            "outer", {"left": half, "right": half, "alone": lambda b: b.step("meet", lambda: meeting.wait() >= 0)}
        )
    )

    assert drive(actor) == "completed"
    assert actor.output == {"left": {"a": True, "b": True}, "right": {"a": True, "b": True}, "alone": True}


@pytest.mark.parametrize("threads", [1, 2])
def test_join_01_without_a_free_thread_branches_run_one_after_another(settings, outside, threads):
    """`BRANCH_THREADS` bounds the process, not the number of branches; nested joins cannot lock each other out."""
    settings.RIVET = {"BRANCH_THREADS": threads}
    running, most = [], []

    def body():
        running.append(1)
        most.append(len(running))
        running.pop()
        outside.append("leaf")

    def half(branch):
        branch.join("inner", {n: lambda b: b.step("do", body, atomic=False) for n in "abc"})

    actor = desk(lambda self, ctx: ctx.join("outer", dict.fromkeys("abc", half)))

    assert drive(actor) == "completed"
    assert len(outside) == 9
    assert max(most) <= threads


def test_join_01_workflow_code_of_branches_runs_one_after_another(outside):
    """Only bodies overlap: what branches do in Python between their steps is never interleaved."""
    meeting = rendezvous(3)
    inside = []

    def branch_of(name):
        def branch(b):
            for n in range(5):
                inside.append(name)
                outside.append(tuple(inside))
                inside.remove(name)
                b.step(f"do {n}", meeting.wait if n == 0 else int)

        return branch

    actor = desk(lambda self, ctx: ctx.join("all", {n: branch_of(n) for n in "abc"}))

    assert drive(actor) == "completed"
    assert {len(names) for names in outside} == {1}


def test_join_01_a_body_that_waits_for_another_branch_gets_what_that_has_committed():
    """Each branch commits by itself, and does not wait for the end of the join."""
    written = threading.Event()

    def write():
        Group.objects.create(name="written by a")

    def read():
        wait_for(written)
        return Group.objects.filter(name="written by a").exists()

    def writer(branch):
        branch.step("write", write)
        branch.step("tell", written.set)

    actor = desk(
        lambda self, ctx: ctx.join("all", {"reader": lambda b: b.step("read", read, atomic=False), "w": writer})
    )

    assert drive(actor) == "completed"
    assert actor.output["reader"] is True


def test_join_01_changes_of_the_state_by_branches_are_not_lost():
    """Bodies that touch `self.state` take turns."""

    class Counter(Actor):
        class State:
            seen: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.join("all", {name: lambda b, n=name: self.branch(b, n) for name in "abcd"})

        def branch(self, branch, name):
            for n in range(5):
                branch.step(f"count {n}", self.count, f"{name}{n}")

        def count(self, what):
            self.state.seen.append(what)

    counter = Counter.create("one")

    assert drive(counter) == "completed"
    assert sorted(counter.state.seen) == sorted(f"{name}{n}" for name in "abcd" for n in range(5))


def test_join_14_parallel_branches_lose_no_record():
    """Differs on purpose from the reference, where two branches of three steps can leave an unreadable history."""
    meeting = rendezvous(4)

    def branch(b):
        b.step("meet", meeting.wait)
        return [b.step(f"s{n}", lambda n=n: n) for n in range(8)]

    def work(self, ctx):
        results = ctx.join("all", dict.fromkeys("abcd", branch))
        ctx.sleep("after", 60)
        return results

    actor = desk(work)
    drive(actor)
    entries = list(actor.history())
    advance(61)

    assert drive(actor) == "completed"
    assert actor.output == {name: list(range(8)) for name in "abcd"}
    assert len([e for e in entries if e.kind == "step" and e.status == "completed"]) == 4 * 9
    assert len({e.seq for e in entries}) == len(entries), "each has a number of its own"


def test_timeout_of_a_step_in_a_branch(outside):
    """It is cut off while its siblings go on; nothing of it lands."""
    cut_off = threading.Event()

    def hangs():
        Group.objects.create(name="late")
        cut_off.wait(60)

    def other(branch):
        branch.step("before", outside.append, "before")
        return branch.step("do", lambda: 1)

    def work(self, ctx):
        result = ctx.try_block(
            "block",
            lambda block: block.join("all", {"hangs": lambda b: b.step("do", hangs, timeout=0.3), "other": other}),
        )
        return result.failure.error.message

    actor = desk(work)

    assert drive(actor) == "completed"
    cut_off.set()
    assert "StepTimeoutError: step 'do' ran longer than 0.3 s" in actor.output
    assert outside == ["before"]
    assert actor.history()["block/all/other"].output == 1
    assert not Group.objects.filter(name="late").exists()


def test_join_02_a_branch_that_fails_waits_for_bodies_that_are_under_way(outside):
    """The workflow goes on when all have ended, and not before."""
    failed = threading.Event()

    def fail():
        failed.set()
        raise CriticalError("no")

    def slow():
        wait_for(failed)
        outside.append("slow has ended")

    def work(self, ctx):
        ctx.try_block(
            "block",
            lambda block: block.join(
                "all",
                {"bad": lambda b: b.step("do", fail), "slow": lambda b: b.step("do", slow, atomic=False)},
            ),
        )
        ctx.step("after", outside.append, "after")

    assert drive(desk(work)) == "completed"
    assert outside == ["slow has ended", "after"]


def test_threads_and_connections_of_branches_end_with_their_join():
    """A process that runs many joins does not gather them."""
    before = threading.active_count()
    actor = desk(
        lambda self, ctx: [
            ctx.join(f"all {n}", {name: lambda b: b.step("do", int) for name in "abcd"}) for n in range(5)
        ]
    )

    assert drive(actor) == "completed"

    eventually(lambda: threading.active_count() <= before, 30, "all threads have ended")
