"""QUEUE-11 to 16: waits with a time limit."""

from datetime import timedelta

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message, WorkflowRun
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors, now

pytestmark = pytest.mark.django_db


def reader(wait):
    """The actor class, in the version whose workflow returns `wait(ctx)`."""

    class Reader(Actor):
        letters = Queue(str)
        parcels = Queue(str)

        @workflow
        def run(self, ctx):
            return wait(ctx)

    return Reader


def next_letter(ctx):
    return ctx.queue.next("letter", names=["letters"], timeout=60).body


def next_letters(ctx):
    return [message.body for message in ctx.queue.next_batch("letter", names=["letters"], timeout=60)]


def queued(actor):
    return Message.objects.filter(actor_id=actor.id, status="queued").count()


def test_queue_11_a_timeout_fails_a_workflow_that_does_not_catch_it():
    """`next()` has no message to give back, so it raises `QueueTimeoutError`, once and for good."""
    mail = reader(next_letter).create("one")
    drive(mail)
    advance(60)

    assert drive(mail) == "failed"
    assert mail.error.name == "QueueTimeoutError"
    assert "'letter' (letters)" in mail.error.message


def test_queue_11_a_block_gives_a_timeout_back_as_data(outside):
    """`try_block` names the wait, and a replay tells the same though a message has come since.

    Differs on purpose from the reference, where a plain error passes the block and fails the workflow.
    """

    def wait(ctx):
        result = ctx.try_block("block", next_letter)
        outside.append((result.ok, result.failure.source, result.failure.name, result.failure.error.name))
        return ctx.queue.next("post").body

    mail = reader(wait).create("one")
    drive(mail)
    advance(60)
    assert drive(mail) == "sleeping"
    mail.send("letters", "late")

    assert drive(mail) == "completed"
    assert mail.output == "late"
    assert outside == [(False, "queue", "letter", "QueueTimeoutError")] * 2


def test_queue_11_a_block_that_does_not_catch_queues_lets_it_pass():
    """`catch` replaces the default."""
    mail = reader(lambda ctx: ctx.try_block("block", next_letter, catch=["step"])).create("one")
    drive(mail)
    advance(60)

    assert drive(mail) == "failed"
    assert mail.error.name == "QueueTimeoutError"


@pytest.mark.parametrize("timeout", [0, 60])
def test_queue_12_a_message_that_is_there_wins(timeout):
    """A time limit makes no difference where nothing has to be waited for."""
    mail = reader(lambda ctx: ctx.queue.next("letter", timeout=timeout).body).create("one")
    mail.send("letters", "hello")

    assert drive(mail) == "completed"
    assert mail.output == "hello"


def test_queue_13_a_timed_wait_waits_for_both(outside):
    """The actor shows when it will wake up and for which queues it waits."""
    mail = reader(next_letter).create("one")
    before = now()

    assert drive(mail) == "sleeping"

    assert mail.waiting_for == ["letters"]
    assert before + timedelta(seconds=60) <= mail.wake_at <= now() + timedelta(seconds=60)


@pytest.mark.parametrize(("event", "output"), [("a message", ["hello"]), ("the deadline", [])])
def test_queue_13_whichever_comes_first_wakes_it(event, output):
    """A message needs no clock, and the deadline needs no message."""
    mail = reader(next_letters).create("one")
    drive()
    if event == "a message":
        mail.send("letters", "hello")
    else:
        advance(60)

    drive()

    assert (mail.status, mail.output) == ("completed", output)
    assert (mail.waiting_for, mail.wake_at) == (None, None)


def test_queue_14_the_deadline_is_recorded_at_the_first_encounter():
    """It is committed before the wait; an early drive and a deploy with another timeout find it there."""
    with isolated_actors():
        mail = reader(next_letters).create("one")
        drive(mail)
        deadline = mail.wake_at
        assert mail.history()["letter"].due_at == deadline
        assert mail.history()["letter"].status == "pending"
        advance(30)
        WorkflowRun.objects.filter(pk=mail.id).update(due_at=now())

        assert drive(mail) == "sleeping"
        assert mail.wake_at == deadline

    with isolated_actors():
        reader(lambda ctx: [m.body for m in ctx.queue.next_batch("letter", names=["letters"], timeout=3600)])
        WorkflowRun.objects.filter(pk=mail.id).update(due_at=now())

        assert drive(mail) == "sleeping"
        assert mail.wake_at == deadline


def test_queue_14_the_deadline_outlives_a_crash():
    """A worker that dies with the wait leaves the deadline to the next one."""
    mail = reader(next_letters).create("one")
    with pytest.raises(SimulatedCrash), crash_at(2, after=True):
        drive(mail)
    deadline = mail.wake_at
    advance(59)
    assert drive(mail) == "sleeping"
    assert mail.wake_at == deadline
    advance(1)

    assert drive(mail) == "completed"
    assert mail.output == []


@pytest.mark.parametrize(
    ("wait", "delivered", "status"),
    [(next_letter, True, "completed"), (next_letters, True, "completed"), (next_letters, False, "completed")],
)
def test_queue_14_the_record_tells_how_the_wait_ended(wait, delivered, status):
    """The deadline stays on record beside what was received."""
    mail = reader(wait).create("one")
    drive(mail)
    deadline = mail.wake_at
    if delivered:
        mail.send("letters", "hello")
    else:
        advance(60)
    drive(mail)

    entry = mail.history()["letter"]
    assert (entry.kind, entry.status, entry.due_at) == ("message", status, deadline)
    assert [message["body"] for message in entry.output] == (["hello"] if delivered else [])


def test_queue_14_a_wait_that_timed_out_without_a_value_is_failed():
    """`next()` has nothing to give back, and its record says so."""
    mail = reader(next_letter).create("one")
    drive(mail)
    advance(60)
    drive(mail)

    assert mail.history()["letter"].status == "failed"


@pytest.mark.parametrize(("wait", "output"), [(next_letter, "just in time"), (next_letters, ["just in time"])])
def test_queue_15_a_message_that_is_there_wins_over_a_deadline_that_has_passed(wait, output):
    """The queue is looked at first, so that a slow worker does not leave a message lying.

    Differs on purpose from the reference, where the deadline is checked first and the message stays queued.
    """
    mail = reader(wait).create("one")
    drive(mail)
    mail.send("letters", "just in time")
    advance(3600)

    assert drive(mail) == "completed"
    assert mail.output == output
    assert queued(mail) == 0


@pytest.mark.parametrize("timeout", [0, -5, timedelta(0), -1e12])
def test_queue_16_a_timeout_of_zero_is_one_look(timeout):
    """It takes what is there, and does not wait where there is nothing.

    Differs on purpose from the reference, where it never receives anything.
    """

    def wait(ctx):
        first = ctx.queue.next_batch("first", timeout=timeout)
        second = ctx.queue.next_batch("second", timeout=timeout)
        result = ctx.try_block("block", lambda block: block.queue.next("third", timeout=timeout))
        return [[message.body for message in first], second, result.failure.error.name]

    mail = reader(wait).create("one")
    mail.send("letters", "hello")

    assert drive(mail) == "completed", str(mail.error)
    assert mail.output == [["hello"], [], "QueueTimeoutError"]
