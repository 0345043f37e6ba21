"""Code that completes a message where older code did not, and the other way round."""

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.testing import advance, drive
from tests.conformance.desks import mail

pytestmark = pytest.mark.django_db


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
