"""QUEUE-08 to 10: several messages at once, in the order in which they were sent."""

import pytest

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db


def reader(wait):
    class Reader(Actor):
        letters = Queue(str)
        parcels = Queue(str)
        bills = Queue(str)

        @workflow
        def run(self, ctx):
            return wait(ctx)

    return Reader.create("one")


def bodies(messages):
    return [message.body for message in messages]


@pytest.mark.parametrize(("there", "taken"), [(1, "a"), (2, "ab"), (3, "abc"), (5, "abc")])
def test_queue_08_a_batch_takes_what_is_there_up_to_its_count(there, taken):
    """The oldest come first, and it never waits to be filled."""
    mail = reader(lambda ctx: bodies(ctx.queue.next_batch("post", count=3)))
    for body in "abcde"[:there]:
        mail.send("letters", body)

    assert drive(mail) == "completed"
    assert mail.output == list(taken)
    assert Message.objects.filter(actor_id=mail.id, status="queued").count() == there - len(taken)


def test_queue_08_a_batch_that_waits_ends_with_the_first_message():
    """With nothing there it waits, and then takes what there is."""
    mail = reader(lambda ctx: bodies(ctx.queue.next_batch("post", count=3)))
    assert drive(mail) == "sleeping"

    mail.send("letters", "a")

    assert drive(mail) == "completed"
    assert mail.output == ["a"]


def test_queue_08_batches_of_one_drive_do_not_share_a_message():
    """What one wait has received is not on record yet when the next one looks, and still nobody gets it twice."""

    def wait(ctx):
        return [bodies(ctx.queue.next_batch(name, count=2, timeout=0)) for name in ("first", "second", "third")]

    mail = reader(wait)
    for body in "abcd":
        mail.send("letters", body)

    assert drive(mail) == "completed"
    assert mail.output == [["a", "b"], ["c", "d"], []]


def test_queue_09_order_is_kept_over_all_wanted_queues():
    """First sent is first taken, whatever the queue; what was not wanted stays."""
    mail = reader(lambda ctx: bodies(ctx.queue.next_batch("post", names=["parcels", "letters"], count=4)))
    for queue, body in [("letters", "a"), ("bills", "b"), ("parcels", "c"), ("letters", "d"), ("parcels", "e")]:
        mail.send(queue, body)
    mail.send("letters", "f")

    assert drive(mail) == "completed"
    assert mail.output == ["a", "c", "d", "e"]
    left = Message.objects.filter(actor_id=mail.id, status="queued").order_by("id")
    assert list(left.values_list("body", flat=True)) == ['"b"', '"f"']


@pytest.mark.parametrize("count", [0, -3])
def test_queue_09_a_count_below_one_is_taken_as_one(count):
    """A batch never asks for nothing."""
    mail = reader(lambda ctx: bodies(ctx.queue.next_batch("post", count=count)))
    mail.send("letters", "a")
    mail.send("letters", "b")

    assert drive(mail) == "completed"
    assert mail.output == ["a"]


@pytest.mark.parametrize("count", [1.5, "2", True, None])
def test_a_count_is_a_whole_number(count):
    """Anything else is a mistake that fails the workflow."""
    mail = reader(lambda ctx: ctx.queue.next_batch("post", count=count))

    assert drive(mail) == "failed"
    assert mail.error.name == "InvalidStepError"
    assert "'post'" in mail.error.message


def test_queue_09_a_delayed_message_joins_when_it_is_due():
    """Until then it is not there; those that are due are taken in the order of sending."""

    def wait(ctx):
        return [bodies(ctx.queue.next_batch(name, count=5)) for name in ("first", "second")]

    mail = reader(wait)
    mail.send("letters", "late", delay=60)
    mail.send("letters", "now")
    assert drive(mail) == "sleeping"
    mail.send("letters", "later", delay=30)

    advance(59)
    assert drive(mail) == "completed"
    assert mail.output == [["now"], ["later"]]


def test_queue_09_of_those_that_are_due_the_one_sent_first_is_taken_first():
    """A delay that is over leaves no trace in the order."""
    mail = reader(lambda ctx: bodies(ctx.queue.next_batch("post", count=5)))
    mail.send("letters", "a", delay=60)
    mail.send("letters", "b", delay=30)
    advance(60)
    mail.send("letters", "c")

    assert drive(mail) == "completed"
    assert mail.output == ["a", "b", "c"]


def test_queue_10_a_batch_that_times_out_is_empty():
    """After the timeout, and not before it, the workflow goes on with nothing."""
    mail = reader(lambda ctx: bodies(ctx.queue.next_batch("post", count=3, timeout=60)))
    assert drive(mail) == "sleeping"
    advance(59)
    assert drive(mail) == "sleeping"
    advance(1)

    assert drive(mail) == "completed"
    assert mail.output == []
