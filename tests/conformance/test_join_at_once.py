"""JOIN: branches that run at the same time, each proven by a meeting that could not take place otherwise."""

import threading
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, CriticalError, workflow
from django_rivet.runtime.recorder import Recorder
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.desks import desk, mail
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


def test_join_07_a_branch_whose_wait_is_over_goes_on_while_another_still_runs():
    """Its thread was given back meanwhile; it does not have to wait for the slow one."""
    second_try = threading.Event()
    attempts = []

    def flaky():
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("busy")
        second_try.set()

    actor = desk(
        lambda self, ctx: ctx.join(
            "all",
            {
                "flaky": lambda b: b.step("do", flaky, retry_backoff_base=0.3, retry_jitter=0),
                "slow": lambda b: b.step("do", lambda: wait_for(second_try), atomic=False, timeout=60),
            },
        )
    )

    assert drive(actor) == "completed"
    assert len(attempts) == 2


def test_join_08_a_message_that_comes_while_another_branch_runs_is_taken_by_then():
    """A branch that waits looks for it from time to time."""
    taken = threading.Event()

    def work(self, ctx):
        return ctx.join(
            "all", {"waits": waits, "sends": lambda b: b.step("send", send, self, atomic=False, timeout=60)}
        )

    def waits(branch):
        body = branch.queue.next("letter").body
        branch.step("tell", taken.set)
        return body

    def send(self):
        type(self).get("one").send("letters", "from a body")
        wait_for(taken)

    actor = desk(work)

    assert drive(actor) == "completed"
    assert actor.output["waits"] == "from a body"


@pytest.mark.parametrize("when", ["in a year", "in the year 9999"])
def test_join_08_a_branch_may_wait_for_very_long_while_another_runs(when):
    """No clock of the platform is asked for more than it can count."""
    asleep = threading.Event()
    until = datetime(9999, 12, 31, tzinfo=UTC)

    def sleeps(branch):
        branch.step("tell", asleep.set)
        if when == "in a year":
            branch.sleep("nap", 365 * 86_400)
        else:
            branch.sleep_until("nap", until)

    def other(branch):
        branch.step("wait", wait_for, asleep, atomic=False)
        for n in range(3):
            branch.step(f"more {n}", int)

    actor = desk(lambda self, ctx: ctx.join("all", {"sleeps": sleeps, "other": other}))

    assert drive(actor) == "sleeping"
    assert actor.history()["all/other"].status == "completed"
    assert actor.history()["all/sleeps/nap"].due_at is not None


@pytest.mark.parametrize("threads", [1, 8])
def test_a_deadline_of_a_waiting_branch_is_on_record_while_another_runs(settings, threads):
    """After a crash it holds, and does not begin anew; also where the other one had to wait for its thread."""
    settings.RIVET = {"BRANCH_THREADS": threads}
    seen = []

    def work(self, ctx):
        return ctx.join(
            "all",
            {"sleeps": lambda b: b.sleep("nap", 3600), "other": lambda b: b.step("look", look, self, atomic=False)},
        )

    def look(self):
        history = type(self).get("one").history
        eventually(lambda: "all/sleeps/nap" in [entry.path for entry in history()], 25, "the deadline is on record")
        seen.append(history()["all/sleeps/nap"].due_at)

    actor = desk(work)

    assert drive(actor) == "sleeping"
    assert seen == [actor.history()["all/sleeps/nap"].due_at]


@pytest.mark.parametrize("threads", [1, 8])
def test_an_answer_given_by_a_branch_is_not_kept_until_another_has_ended(settings, threads):
    """Who waits for it must not wait for bodies that have nothing to do with it, even if the branch ends with it."""
    settings.RIVET = {"BRANCH_THREADS": threads}
    seen = []

    def work(self, ctx):
        return ctx.join("all", {"answers": answers, "slow": lambda b: slow(self, b)})

    def answers(branch):
        branch.queue.next("letter", completable=True).complete(7)

    def slow(self, branch):
        branch.step("wait", look, self, atomic=False, timeout=60)

    def look(self):
        handle = type(self).get("one")
        eventually(lambda: mail(handle) == [("completed", "7")], 30, "the answer is there")
        seen.append("answered")

    actor = desk(work)
    actor.send("letters", "what?")

    assert drive(actor) == "completed"
    assert seen == ["answered"]


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


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
@pytest.mark.parametrize("crashes", [False, True], ids=["", "then a crash"])
def test_queue_24_two_branches_that_complete_messages_of_one_batch_at_the_same_moment(monkeypatch, atomic, crashes):
    """Neither record takes back what the other says: both are completed, and the workflow may ask for the next one."""
    meeting = rendezvous(2)
    write = Recorder.write

    def write_together(recorder, changes, **options):
        if changes.completions:
            meeting.wait()
        return write(recorder, changes, **options)

    monkeypatch.setattr(Recorder, "write", write_together)

    def work(self, ctx):
        batch = ctx.queue.next_batch("batch", ["letters"], count=2, completable=True)
        ctx.join(
            "all",
            {str(n): lambda b, n=n, m=m: b.step("do", m.complete, n, atomic=atomic) for n, m in enumerate(batch)},
        )
        return ctx.queue.next("next", ["letters"]).body

    actor = desk(work)
    for letter in "abc":
        actor.send("letters", letter)

    if crashes:
        # The claim, the join, two bodies: and the end, which would write what they have left.
        with crash_at(5), pytest.raises(SimulatedCrash):
            drive(actor)
    assert drive(actor) == "completed"

    assert actor.output == "c"
    assert mail(actor)[:2] == [("completed", "0"), ("completed", "1")]
    assert actor.history()["batch"].status == "completed"
