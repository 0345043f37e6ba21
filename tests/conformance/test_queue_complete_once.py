"""QUEUE-25: a message is completed once."""

import pytest

from django_rivet import InvalidInputError
from django_rivet.testing import advance, drive
from tests.conformance.desks import desk, mail

pytestmark = pytest.mark.django_db


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
