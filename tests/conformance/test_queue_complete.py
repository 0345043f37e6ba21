"""QUEUE-21 to 24, 26, 27: a message that stays open until the workflow completes it."""

from contextlib import suppress

import pytest

from django_rivet import Actor, MessageNotCompletedError, Queue, QueueFullError, workflow
from django_rivet.testing import advance, drive
from tests.conformance.desks import desk, mail

pytestmark = pytest.mark.django_db


def test_queue_21_a_completable_message_is_open_until_it_is_completed():
    """Nobody else gets it, it counts as unhandled, and the answer is kept where it is."""

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        ctx.sleep("think", 60)
        message.complete(7)
        return message.body

    actor = desk(work)
    actor.send("letters", "hello")

    assert drive(actor) == "sleeping"
    assert mail(actor) == [("open", None)]
    assert actor.history()["letter"].status == "open"

    advance(60)
    assert drive(actor) == "completed"
    assert mail(actor) == [("completed", "7")]
    assert actor.history()["letter"].status == "completed"
    assert actor.output == "hello"


def test_queue_21_an_open_message_still_fills_the_queue():
    """It was not worked on: `max_queue_size` counts it."""

    class Small(Actor):
        class Meta:
            max_queue_size = 1

        letters = Queue(str)

        @workflow
        def run(self, ctx):
            message = ctx.queue.next("letter", completable=True)
            ctx.sleep("think", 60)
            message.complete()

    actor = Small.create("one")
    actor.send("letters", "a")
    drive(actor)

    with pytest.raises(QueueFullError, match="holds 1 unhandled messages"):
        actor.send("letters", "b")


@pytest.mark.parametrize("ask", ["next", "next_batch"])
def test_queue_22_asking_for_another_message_while_one_is_open_fails_the_workflow(ask):
    """The error says which is open; both messages are still unhandled. Swallowing it does not help."""

    def work(self, ctx):
        ctx.queue.next("first", completable=True)
        with suppress(MessageNotCompletedError):
            getattr(ctx.queue, ask)("second", timeout=0)
        ctx.step("never", lambda: None)

    actor = desk(work)
    first = actor.send("letters", "a").id
    actor.send("letters", "b")

    assert drive(actor) == "failed"
    assert actor.error.name == "MessageNotCompletedError"
    assert f"message {first}," in actor.error.message
    assert "'second'" in actor.error.message
    assert "'first'" in actor.error.message
    assert mail(actor) == [("open", None), ("queued", None)]
    assert "never" not in [entry.name for entry in actor.history()]


def test_queue_22_a_mended_workflow_completes_the_open_message_after_recover(monkeypatch):
    """Nothing of it is lost by the failure, and it is not delivered a second time."""

    class Desk(Actor):
        letters = Queue(str, int)
        is_mended = False

        @workflow
        def run(self, ctx):
            first = ctx.queue.next("first", completable=True)
            if self.is_mended:
                first.complete(1)
            return [first.body, ctx.queue.next("second").body]

    actor = Desk.create("one")
    for body in "ab":
        actor.send("letters", body)
    assert drive(actor) == "failed"

    monkeypatch.setattr(Desk, "is_mended", True)
    actor.recover()

    assert drive(actor) == "completed"
    assert actor.output == ["a", "b"]
    assert mail(actor) == [("completed", "1"), ("handled", None)]


@pytest.mark.parametrize("atomic", [True, False])
def test_queue_23_a_message_completed_in_a_step_stays_completed_over_replay(outside, atomic):
    """The body does not run again, and the next wait is free; code that completes it on the way does nothing then."""

    def work(self, ctx):
        first = ctx.queue.next("first", completable=True)
        outside.append(first.id)
        ctx.step("answer", first.complete, 1, atomic=atomic)
        return ctx.queue.next("second").body

    actor = desk(work)
    actor.send("letters", "a")
    assert drive(actor) == "sleeping"
    assert mail(actor) == [("completed", "1")]

    actor.send("letters", "b")

    assert drive(actor) == "completed"
    assert len(outside) == 2, "the second drive is a replay"
    assert mail(actor) == [("completed", "1"), ("handled", None)]


def test_queue_23_completing_again_on_a_replay_does_nothing(outside):
    """The code that answered runs on each replay; the first answer holds."""

    def work(self, ctx):
        first = ctx.queue.next("first", completable=True)
        outside.append(first.body)
        first.complete(len(outside))
        return ctx.queue.next("second").body

    actor = desk(work)
    actor.send("letters", "a")
    drive(actor)
    actor.send("letters", "b")

    assert drive(actor) == "completed"
    assert outside == ["a", "a"]
    assert mail(actor)[0] == ("completed", "1")


def test_queue_24_a_message_not_completed_before_a_wait_is_open_after_replay(outside):
    """The same message, by its id; completing it then works as it would have before."""

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        outside.append(message)
        ctx.sleep("think", 60)
        message.complete(2)

    actor = desk(work)
    receipt = actor.send("letters", "a")
    drive(actor)
    advance(60)

    assert drive(actor) == "completed"
    assert outside[0] == outside[1]
    assert outside[1].id == receipt.id
    assert mail(actor) == [("completed", "2")]


def test_queue_26_every_message_of_a_batch_must_be_completed_before_the_next_receive():
    """One that is left is enough to be refused; the others are answered."""

    def work(self, ctx):
        a, b, _ = ctx.queue.next_batch("letters", count=3, completable=True)
        a.complete(1)
        ctx.step("b", b.complete, 2)
        ctx.queue.next("more", timeout=0)

    actor = desk(work)
    ids = [actor.send("letters", body).id for body in "abc"]

    assert drive(actor) == "failed"
    assert actor.error.name == "MessageNotCompletedError"
    assert f"message {ids[2]}," in actor.error.message
    assert mail(actor) == [("completed", "1"), ("completed", "2"), ("open", None)]


def test_queue_26_a_batch_that_is_completed_lets_the_workflow_go_on():
    """Also one that is empty since nothing came in time: there is nothing to complete."""

    def work(self, ctx):
        assert ctx.queue.next_batch("none", timeout=0, names=["others"], completable=True) == []
        batch = ctx.queue.next_batch("letters", count=3, completable=True)
        for message in batch:
            message.complete(len(message.body))
        return ctx.queue.next_batch("more", timeout=0)

    class Desk(Actor):
        letters = Queue(str, int)
        others = Queue(str)

        @workflow
        def run(self, ctx):
            return work(self, ctx)

    actor = Desk.create("one")
    for body in ("a", "bb"):
        actor.send("letters", body)

    assert drive(actor) == "completed"
    assert mail(actor) == [("completed", "1"), ("completed", "2")]


def test_queue_27_an_open_message_of_an_earlier_iteration_is_not_delivered_again():
    """Differs on purpose: there each scope has a guard of its own, and iteration k+1 gets the message of k again."""

    def work(self, ctx):
        for turn in ctx.loop("letters", history_prune_interval=1):
            if turn.iteration == 3:
                return turn.queue.next("letter", completable=True).body
            if turn.iteration == 0:
                turn.queue.next("letter", completable=True)
            turn.now("moment")
        return None

    actor = desk(work)
    for body in "ab":
        actor.send("letters", body)

    assert drive(actor) == "failed"
    assert actor.error.name == "MessageNotCompletedError"
    assert "'letters/0/letter'" in actor.error.message, "pruning does not forget what is open"
    assert mail(actor) == [("open", None), ("queued", None)]
