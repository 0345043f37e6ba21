"""SLEEP: the deadline is set once, survives everything, and costs nothing while it waits."""

import time
import uuid
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import Worker
from django_rivet.testing import SimulatedCrash, advance, count_commits, crash_at, drive, isolated_actors, now

pytestmark = pytest.mark.django_db


def sleeper(outside, duration=60):
    """An actor that makes a step, sleeps, and makes another."""

    class Sleeper(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("before", outside.append, "before")
            if isinstance(duration, datetime):
                ctx.sleep_until("rest", duration)
            else:
                ctx.sleep("rest", duration)
            ctx.step("after", outside.append, "after")
            return "rested"

    return Sleeper


def pausing_worker(**options):
    """A worker that spends short waits in memory, as real ones do."""
    return Worker("pausing", dead="pausing", keep_alive=lambda lease: nullcontext(), **options)


def test_sleep_01_a_long_sleep_ends_the_drive(outside):
    """The actor is left sleeping with the time at which it goes on."""
    sleeper_ = sleeper(outside, duration=60).create("one")
    before = now()

    assert drive(sleeper_) == "sleeping"

    assert outside == ["before"]
    assert before + timedelta(seconds=60) <= sleeper_.wake_at <= now() + timedelta(seconds=60)
    assert sleeper_.waiting_for is None


@pytest.mark.parametrize("duration", [0.02, timedelta(milliseconds=20)])
def test_sleep_02_a_short_sleep_is_waited_for_in_memory(outside, duration):
    """A wait under a tenth of a second costs no commit: one drive completes, and no time to wake is stored."""
    short = sleeper(outside, duration).create("one")
    began = now()

    with count_commits() as commits:
        assert drive_once(uuid.UUID(short.id), pausing_worker())

    assert now() >= began + timedelta(seconds=0.02)
    assert (short.status, short.output, short.wake_at) == ("completed", "rested", None)
    assert commits.count == 4, "the claim, two steps and the release"
    assert outside == ["before", "after"]


def test_sleep_02_what_little_is_left_of_a_sleep_is_waited_for_in_memory(outside):
    """What counts is the time that is left, not the duration."""
    long = sleeper(outside, duration=60).create("one")
    assert drive(long) == "sleeping"
    advance((long.wake_at - now()).total_seconds() - 0.05)
    WorkflowRun.objects.filter(pk=long.id).update(due_at=now())

    assert drive_once(uuid.UUID(long.id), pausing_worker())

    assert long.status == "completed"


def test_sleep_02_a_sleep_over_the_poll_interval_is_not_waited_for_in_memory(outside):
    """The worker is free for others while the database remembers."""
    longer = sleeper(outside, duration=0.3).create("one")

    assert drive_once(uuid.UUID(longer.id), pausing_worker())

    assert longer.status == "sleeping"
    assert outside == ["before"]


def test_sleep_03_after_the_deadline_the_next_drive_completes(outside):
    """When its time has come the workflow goes on behind the sleep."""
    sleeper_ = sleeper(outside).create("one")
    drive(sleeper_)
    advance(60)

    assert drive(sleeper_) == "completed"
    assert outside == ["before", "after"]


@pytest.mark.parametrize(
    "past",
    [
        0,
        -1,
        -0.5,
        timedelta(0),
        timedelta(seconds=-5),
        -1e12,
        timedelta.min,
        datetime(2000, 1, 1, tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
    ],
    ids=str,
)
def test_sleep_04_what_is_over_already_is_not_waited_for(outside, past):
    """A time in the past, and a duration of zero or less, complete at once, however far they reach back."""
    sleeper_ = sleeper(outside, past).create("one")

    with count_commits() as commits:
        drive()

    assert sleeper_.status == "completed", str(sleeper_.error)
    assert commits.count == 4, "the claim, two steps and the release"


def test_sleep_05_the_wake_up_time_is_the_deadline_and_goes_with_it(outside):
    """While it waits, what wakes the actor is exactly the recorded deadline; afterwards nothing does."""
    sleeper_ = sleeper(outside).create("one")
    drive(sleeper_)

    assert sleeper_.wake_at == sleeper_.history()["rest"].due_at

    advance(61)
    drive(sleeper_)
    assert sleeper_.wake_at is None


def test_sleep_06_a_sleep_in_a_later_iteration_does_not_run_the_earlier_one_again(outside):
    """Each iteration sleeps its own sleep once."""

    class Nightly(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("nights"):
                turn.step("work", outside.append, f"work {turn.iteration}")
                turn.sleep("night", 3600)
                outside.append(f"morning {turn.iteration}")

    nightly = Nightly.create("one")
    for _ in range(3):
        assert drive(nightly) == "sleeping"
        advance(3600)

    assert drive(nightly) == "sleeping"
    assert outside == ["work 0", "morning 0", "work 1", "morning 1", "work 2", "morning 2", "work 3"]


def test_sleep_07_the_first_deadline_holds_over_a_deploy(outside):
    """Code that now asks for another duration finds the deadline on record."""
    with isolated_actors():
        rest = sleeper(outside, duration=60).create("one")
        drive(rest)
    deadline = rest.wake_at
    for duration in (3600, 0):
        with isolated_actors():
            sleeper(outside, duration)
            WorkflowRun.objects.filter(pk=rest.id).update(due_at=now())

            assert drive(rest) == "sleeping", str(rest.error)

        assert rest.wake_at == deadline
    advance(60)
    with isolated_actors():
        sleeper(outside, duration=3600)

        assert drive(rest) == "completed"


def test_sleep_07_a_deadline_at_the_end_of_the_calendar_is_not_computed_again(outside):
    """The same duration a minute later would end after the year 9999; but nobody asks for that."""
    nearly_for_ever = datetime.max.replace(tzinfo=UTC) - now() - timedelta(seconds=30)
    rest = sleeper(outside, nearly_for_ever).create("one")
    drive(rest)
    deadline = rest.wake_at
    advance(60)
    WorkflowRun.objects.filter(pk=rest.id).update(due_at=now())

    assert drive(rest) == "sleeping", str(rest.error)
    assert rest.wake_at == deadline


def test_sleep_07_the_first_deadline_holds_over_a_crash(outside):
    """It was committed before the wait: a worker that dies afterwards leaves it behind."""
    sleeper_ = sleeper(outside).create("one")
    with pytest.raises(SimulatedCrash), crash_at(3, after=True):
        drive(sleeper_)
    deadline = sleeper_.history()["rest"].due_at
    advance(50)

    assert drive(sleeper_) == "sleeping"

    assert sleeper_.wake_at == deadline
    advance(10)
    assert drive(sleeper_) == "completed"


def test_sleep_08_a_drive_before_the_deadline_waits_on(outside):
    """Whatever makes a worker look too early, it goes to sleep again until the same moment."""
    sleeper_ = sleeper(outside).create("one")
    drive(sleeper_)
    deadline = sleeper_.wake_at
    advance(30)
    WorkflowRun.objects.filter(pk=sleeper_.id).update(due_at=now())

    assert drive(sleeper_) == "sleeping"

    assert sleeper_.wake_at == deadline
    assert outside == ["before"]


def test_sleep_09_a_sleep_is_pending_and_then_completed(outside):
    """The history shows when it began, until when it lasts, and when it was over."""
    sleeper_ = sleeper(outside).create("one")
    drive(sleeper_)
    pending = sleeper_.history()["rest"]
    advance(61)
    drive(sleeper_)
    completed = sleeper_.history()["rest"]

    assert (pending.kind, pending.status, pending.ended_at) == ("sleep", "pending", None)
    assert abs(pending.due_at - pending.started_at - timedelta(seconds=60)) < timedelta(seconds=1)
    assert (completed.status, completed.started_at, completed.due_at) == (
        "completed",
        pending.started_at,
        pending.due_at,
    )
    assert completed.ended_at >= completed.due_at


def test_sleep_10_eviction_during_a_sleep_in_memory_leaves_it_pending(outside, monkeypatch):
    """A worker that is told to leave while it pauses hands the actor over; the next one ends the sleep."""
    told_to_leave = []
    pause = time.sleep

    def told_while_pausing(seconds):
        told_to_leave.append("leave")
        pause(seconds)

    monkeypatch.setattr(time, "sleep", told_while_pausing)
    short = sleeper(outside, duration=0.05).create("one")

    assert drive_once(uuid.UUID(short.id), pausing_worker(evicted=lambda: bool(told_to_leave)))

    assert (short.status, outside) == ("sleeping", ["before"])
    assert short.history()["rest"].status == "pending"
    advance(1)
    assert drive(short) == "completed"
    assert outside == ["before", "after"]


def test_sleep_11_a_wake_up_does_not_shorten_a_sleep(outside):
    """Neither an early drive nor a message ends it before its time."""

    class Sleeper(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.sleep("rest", 60)
            ctx.step("after", outside.append, "after")

    sleeper_ = Sleeper.create("one")
    drive(sleeper_)
    deadline = sleeper_.wake_at
    sleeper_.send("letters", "wake up")
    assert drive(sleeper_) == "sleeping"
    for _ in range(5):
        advance(10)
        WorkflowRun.objects.filter(pk=sleeper_.id).update(due_at=now())
        assert drive(sleeper_) == "sleeping"
        assert sleeper_.wake_at == deadline

    assert outside == []
    advance(10)
    assert drive(sleeper_) == "completed"
