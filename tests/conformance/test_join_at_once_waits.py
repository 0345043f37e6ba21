"""JOIN: branches that wait, and messages that they complete, while others run."""

import threading
from datetime import UTC, datetime

import pytest

from django_rivet.runtime.recorder import Recorder
from django_rivet.testing import SimulatedCrash, crash_at, drive
from tests.conformance.desks import desk, mail
from tests.conformance.modes import rendezvous, wait_for
from tests.journeys.workers import eventually

pytestmark = pytest.mark.django_db(transaction=True)


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
