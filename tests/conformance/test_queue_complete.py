"""QUEUE-21 to 26, 29: a message that stays open until the workflow completes it."""

from contextlib import suppress

import pytest
from django.db import OperationalError

from django_rivet import (
    Actor,
    CriticalError,
    InvalidInputError,
    MessageNotCompletedError,
    Queue,
    QueueFullError,
    StepOnlyError,
    workflow,
)
from django_rivet.models import Message
from django_rivet.testing import advance, count_commits, drive

pytestmark = pytest.mark.django_db


def desk(work):
    """An actor whose workflow is `work(self, ctx)`."""

    class Desk(Actor):
        letters = Queue(str, int)

        @workflow
        def run(self, ctx):
            return work(self, ctx)

    return Desk.create("one")


def mail(actor):
    """What has become of each message, in the order of sending."""
    return list(Message.objects.filter(actor_id=actor.id).order_by("id").values_list("status", "response"))


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


@pytest.mark.parametrize("where", ["workflow", "step", "one step after another", "workflow, then step"])
def test_queue_25_completing_twice_in_one_pass_is_an_error(where):
    """A mistake of the workflow's code: it fails, and what that pass has not written yet has no effect."""

    def twice(message):
        message.complete(1)
        message.complete(2)

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        if where == "workflow":
            twice(message)
        elif where == "step":
            ctx.step("twice", twice, message)
        elif where == "one step after another":
            ctx.step("once", message.complete, 1)
            ctx.step("again", message.complete, 2)
        else:
            message.complete(1)
            ctx.step("again", message.complete, 2)

    actor = desk(work)
    actor.send("letters", "a")

    assert drive(actor) == "failed"
    assert actor.error.name == "MessageAlreadyCompletedError"
    assert "its first response holds" in actor.error.message
    assert mail(actor) == [("open", None) if where == "step" else ("completed", "1")]


def test_queue_25_a_completion_that_raised_may_be_tried_again():
    """A response that is not what the queue declares: the error names the place, and the message stays open."""
    errors = []

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        try:
            message.complete("many")
        except InvalidInputError as error:
            errors.append(error)
        message.complete(3)

    actor = desk(work)
    actor.send("letters", "a")

    assert drive(actor) == "completed"
    assert [fault["path"] for fault in errors[0].errors] == ["response"]
    assert mail(actor) == [("completed", "3")]


def test_queue_25_an_attempt_that_fails_has_completed_nothing():
    """What a body did is undone with it, and its retry may complete again; what it did last is what counts."""
    attempts = []

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)

        def answer():
            attempts.append(message.id)
            message.complete(len(attempts))
            if len(attempts) == 1:
                raise OSError("not yet")

        ctx.step("answer", answer, atomic=False)

    actor = desk(work)
    actor.send("letters", "a")
    drive(actor)
    assert mail(actor) == [("open", None)]

    advance(60)
    assert drive(actor) == "completed"
    assert len(attempts) == 2
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


def test_queue_29_an_answer_is_there_before_the_next_body_runs(outside):
    """Whoever waits for it does not wait for what the workflow does next; it takes one commit, and no other has it."""

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        message.complete(1)
        ctx.step("look", lambda: outside.extend(mail(actor)))

    actor = desk(work)
    actor.send("letters", "a")

    with count_commits() as commits:
        assert drive(actor) == "completed"

    assert outside == [("completed", "1")]
    assert commits.count == 4, "the claim, the answer, the step and the release"


def test_queue_29_an_answer_in_a_step_lands_together_with_it():
    """In the one commit of the step: no other is needed."""

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        ctx.step("answer", message.complete, 1)

    actor = desk(work)
    actor.send("letters", "a")

    with count_commits() as commits:
        assert drive(actor) == "completed"

    assert mail(actor) == [("completed", "1")]
    assert commits.count == 3, "the claim, the step and the release"


def test_an_ephemeral_step_answers_with_the_next_commit():
    """It has none of its own; the answer is not lost by that."""

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        ctx.step("answer", message.complete, 1, ephemeral=True)
        return ctx.queue.next("next").body

    actor = desk(work)
    for body in "ab":
        actor.send("letters", body)

    assert drive(actor) == "completed"
    assert mail(actor) == [("completed", "1"), ("handled", None)]


def test_a_message_is_completed_inside_its_workflow_only(outside):
    """In a handler, or after the pass, nobody would write it down."""

    class Desk(Actor):
        letters = Queue(str, int)

        @workflow
        def run(self, ctx):
            self.message = ctx.queue.next("letter", completable=True)
            outside.append(self.message)
            ctx.rollback_checkpoint("begin")
            ctx.step("do", lambda: None, rollback=self.undo)
            raise LookupError

        def undo(self, rollback, output):
            try:
                self.message.complete(1)
            except StepOnlyError as error:
                outside.append(error)
                raise CriticalError from None

    actor = Desk.create("one")
    actor.send("letters", "a")
    assert drive(actor) == "rollback_failed"
    message, refused = outside
    assert "outside of its workflow" in str(refused)

    with pytest.raises(StepOnlyError, match="outside of its workflow"):
        message.complete(1)
    assert mail(actor) == [("open", None)]


def test_while_the_workflow_unwinds_complete_only_raises_that_again(outside):
    """A `finally` on the way out to a wait answers nobody."""

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        try:
            ctx.sleep("think", 60)
        finally:
            message.complete(1)
            outside.append("answered")

    actor = desk(work)
    actor.send("letters", "a")
    assert drive(actor) == "sleeping"
    assert (outside, mail(actor)) == ([], [("open", None)])

    advance(60)
    assert drive(actor) == "completed"
    assert (outside, mail(actor)) == (["answered"], [("completed", "1")])


def test_a_deploy_that_does_not_complete_any_more_completes_what_is_open():
    """A wait whose messages were open, and whose code takes them for good now: nobody else would ever complete them."""

    class Desk(Actor):
        letters = Queue(str, int)
        completable = True

        @workflow
        def run(self, ctx):
            first = ctx.queue.next("first", completable=self.completable)
            ctx.sleep("think", 60)
            return [first.body, ctx.queue.next("second").body]

    actor = Desk.create("one")
    for body in "ab":
        actor.send("letters", body)
    drive(actor)
    advance(60)

    Desk.completable = False

    assert drive(actor) == "completed"
    assert actor.output == ["a", "b"]
    assert mail(actor) == [("completed", "null"), ("handled", None)]


def test_a_deploy_that_completes_what_was_taken_for_good_changes_nothing():
    """The message was handled when it was taken; completing it now is harmless."""

    class Desk(Actor):
        letters = Queue(str, int)
        completable = False

        @workflow
        def run(self, ctx):
            first = ctx.queue.next("first", completable=self.completable)
            ctx.sleep("think", 60)
            if self.completable:
                first.complete(1)
            return first.body

    actor = Desk.create("one")
    actor.send("letters", "a")
    drive(actor)
    advance(60)

    Desk.completable = True

    assert drive(actor) == "completed"
    assert mail(actor) == [("handled", None)]


def test_a_deploy_that_completes_in_a_step_what_was_completed_before_it_changes_nothing():
    """The first response holds, however often an attempt of the new step repeats it."""

    class Desk(Actor):
        letters = Queue(str, int)
        in_step = False

        @workflow
        def run(self, ctx):
            letter = ctx.queue.next("letter", completable=True)
            if not self.in_step:
                letter.complete(1)
            ctx.sleep("think", 60)
            if self.in_step:
                ctx.step("answer", letter.complete, 2)

    actor = Desk.create("one")
    actor.send("letters", "a")
    drive(actor)
    advance(60)

    Desk.in_step = True

    assert drive(actor) == "completed"
    assert mail(actor) == [("completed", "1")]


def test_a_message_kept_from_an_earlier_pass_cannot_be_completed(outside):
    """Each pass has its own; what is done with an old one would be written nowhere."""

    def work(self, ctx):
        outside.append(ctx.queue.next("letter", completable=True))
        ctx.sleep("think", 60)
        outside[0].complete(1)

    actor = desk(work)
    actor.send("letters", "a")
    drive(actor)
    advance(60)

    assert drive(actor) == "failed"
    assert actor.error.name == "StepOnlyError"
    assert mail(actor) == [("open", None)]


def test_a_body_that_met_a_conflict_completes_again_when_it_is_run_again():
    """That run has completed nothing: it was rolled back, and is not charged."""
    runs = []

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)

        def answer():
            runs.append(message.id)
            message.complete(len(runs))
            if len(runs) == 1:
                raise OperationalError("database is locked")

        ctx.step("answer", answer, max_retries=0)

    actor = desk(work)
    actor.send("letters", "a")

    assert drive(actor) == "completed"
    assert len(runs) == 2
    assert mail(actor) == [("completed", "2")]


def test_an_open_message_is_replayed_in_silence(caplog):
    """`ctx.log` tells of a message once, though it is still to be completed."""

    def work(self, ctx):
        message = ctx.queue.next("letter", completable=True)
        ctx.log.warning("received %s", message.body)
        ctx.sleep("think", 60)
        message.complete(1)

    actor = desk(work)
    actor.send("letters", "a")
    drive(actor)
    advance(60)

    assert drive(actor) == "completed"
    assert caplog.text.count("received a") == 1
