"""QUEUE-29: when what was completed is written, and where nothing can be."""

import pytest
from django.db import OperationalError

from django_rivet import Actor, CriticalError, Queue, StepOnlyError, workflow
from django_rivet.testing import advance, count_commits, drive
from tests.conformance.desks import desk, mail

pytestmark = pytest.mark.django_db


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
