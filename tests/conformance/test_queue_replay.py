"""QUEUE-17, 18, 20: what was received is history; the queue is not asked again."""

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive

pytestmark = pytest.mark.django_db


def test_queue_17_a_replay_returns_the_record(outside):
    """Neither later messages nor the loss of the row changes what a completed wait gives back."""

    class Mail(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            first = ctx.queue.next("first")
            batch = ctx.queue.next_batch("batch", count=2)
            nothing = ctx.queue.next_batch("nothing", timeout=0)
            outside.append([first.body, [each.body for each in batch], nothing])
            ctx.queue.next("last")

    mail = Mail.create("one")
    for body in "abc":
        mail.send("letters", body)
    drive(mail)
    Message.objects.filter(actor_id=mail.id).delete()
    mail.send("letters", "d")

    assert drive(mail) == "completed"
    assert outside == [["a", ["b", "c"], []]] * 2


def test_queue_18_a_timeout_in_a_later_iteration_does_not_deliver_the_earlier_message_again(outside):
    """A drain loop handles each message once, then finds nothing, and ends."""

    class Drain(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("drain"):
                batch = turn.queue.next_batch("letter", timeout=60)
                if not batch:
                    return "drained"
                turn.step("handle", outside.append, batch[0].body)
            return None

    mail = Drain.create("one")
    mail.send("letters", "a")
    assert drive(mail) == "sleeping"
    mail.send("letters", "b")
    assert drive(mail) == "sleeping"
    advance(60)

    assert drive(mail) == "completed"
    assert mail.output == "drained"
    assert outside == ["a", "b"]


def test_queue_18_the_same_without_a_loop(outside):
    """A second wait that times out leaves the first one's message handled."""

    class Mail(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            first = ctx.queue.next_batch("first", timeout=60)
            ctx.step("handle", outside.append, first[0].body)
            return [each.body for each in ctx.queue.next_batch("second", timeout=60)]

    mail = Mail.create("one")
    mail.send("letters", "a")
    assert drive(mail) == "sleeping"
    advance(60)

    assert drive(mail) == "completed"
    assert mail.output == []
    assert outside == ["a"]


@pytest.mark.parametrize("after", [False, True])
def test_queue_20_a_crash_neither_loses_nor_repeats_a_message(after):
    """Taking a message and recording it are one commit, whichever commit the worker dies at.

    Differs on purpose from the reference, where a crash between the two loses the message.
    """

    class Desk(Actor):
        class State:
            handled: list[str] = []

        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("work"):
                batch = turn.queue.next_batch("letters", count=2)
                for number, letter in enumerate(batch):
                    turn.step(f"handle {number}", self.handle, letter.body)
                last = turn.queue.next("last")
                turn.step("handle last", self.handle, last.body)
                if last.body == "f":
                    return

        def handle(self, body):
            self.state.handled.append(body)

    crashes = 0
    for n in range(1, 20):
        desk = Desk.create(f"crash {n}")
        for body in "abcdef":
            desk.send("letters", body)
        try:
            with crash_at(n, after):
                drive(desk)
        except SimulatedCrash:
            crashes += 1
            left = Message.objects.filter(actor_id=desk.id, status="queued").order_by("id")
            taken = sum(len(e.output) for e in desk.history() if e.kind == "message")
            assert list(left.values_list("body", flat=True)) == [f'"{body}"' for body in "abcdef"[taken:]]
        assert drive(desk) == "completed"
        assert desk.state.handled == list("abcdef"), f"crash at commit {n}"
    assert crashes >= 8
