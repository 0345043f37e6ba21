"""QUEUE-29, 30: completing a message, and the death of the worker at each commit on the way."""

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import SimulatedCrash, crash_at, drive

pytestmark = pytest.mark.django_db


class Clerk(Actor):
    """Answers letters in every way there is, and counts how often it has handled each."""

    class Meta:
        abstract = True

    class State:
        handled: list[str] = []

    letters = Queue(str, str)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("letters"):
            letter = turn.queue.next("letter", completable=True)
            turn.step("handle", self.handle, letter.body)
            letter.complete(letter.body.upper())
            batch = turn.queue.next_batch("batch", count=2, completable=True)
            turn.step("handle both", self.handle_both, batch)
            last = turn.queue.next("last", completable=True)
            last.complete(last.body.upper())
            turn.step("handle the last", self.handle, last.body, atomic=False)
            if last.body == "h":
                return

    def handle(self, body):
        return body

    def handle_both(self, batch):
        for message in batch:
            self.state.handled.append(message.body)
            message.complete(message.body.upper())


@pytest.mark.parametrize("after", [False, True])
def test_queue_29_a_crash_at_any_commit_neither_loses_nor_repeats_an_answer(after):
    """Each message is completed once, by its row's id, whichever commit the worker dies at; the next one goes on.

    QUEUE-30 differs on purpose: there a restart forgets whom to answer, and completing silently does nothing.
    """

    class Desk(Clerk):
        pass

    crashes = 0
    for n in range(1, 20):
        desk = Desk.create(f"crash {n}")
        for body in "abcdefgh":
            desk.send("letters", body)
        try:
            with crash_at(n, after):
                drive(desk)
        except SimulatedCrash:
            crashes += 1
            for status, response in messages(desk):
                assert (response is not None) == (status == "completed")
        assert drive(desk) == "completed"
        assert messages(desk) == [("completed", f'"{body}"') for body in "ABCDEFGH"], f"crash at commit {n}"
        assert desk.state.handled == list("bcfg"), f"crash at commit {n}"
    assert crashes >= 8


@pytest.mark.parametrize("after", [False, True])
def test_queue_30_cancelling_with_rollback_after_a_crash_completes_nothing_more(after):
    """Up to where the workflow stands it is replayed without executing anything, and an answer would be something."""

    class Desk(Actor):
        letters = Queue(str, str)

        @workflow
        def run(self, ctx):
            letter = ctx.queue.next("letter", completable=True)
            ctx.step("handle", int)
            letter.complete("answer")
            ctx.step("more", int)

    desk = Desk.create("one")
    desk.send("letters", "a")
    with pytest.raises(SimulatedCrash), crash_at(3, after):
        drive(desk)
    is_answered = messages(desk) == [("completed", '"answer"')]
    assert is_answered is after

    desk.cancel(rollback=True)

    assert drive(desk) == "cancelled"
    assert messages(desk) == [("completed", '"answer"') if is_answered else ("open", None)]


def messages(actor):
    return list(Message.objects.filter(actor_id=actor.id).order_by("id").values_list("status", "response"))
