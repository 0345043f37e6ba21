"""QUEUE-01 to 07, 19, 32: a workflow waits for a message and takes it."""

import pytest
from pydantic import BaseModel

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import count_commits, drive

pytestmark = pytest.mark.django_db


def reader(wait):
    """An actor with two queues whose workflow returns `wait(ctx)`."""

    class Reader(Actor):
        letters = Queue(str)
        parcels = Queue(str)

        @workflow
        def run(self, ctx):
            return wait(ctx)

    return Reader.create("one")


def queued(actor):
    return list(Message.objects.filter(actor_id=actor.id, status="queued").order_by("id").values_list("queue", "body"))


def test_queue_01_with_nothing_queued_the_actor_waits_for_the_named_queues():
    """The drive ends; what is waited for can be seen, and no time is set to wake up."""
    mail = reader(lambda ctx: ctx.queue.next("letter", names=["letters"]).body)

    assert drive(mail) == "sleeping"
    assert mail.waiting_for == ["letters"]
    assert mail.wake_at is None


def test_queue_02_a_message_wakes_the_workflow_that_waits_for_it():
    """Sending through the handle makes the actor due at once."""
    mail = reader(lambda ctx: ctx.queue.next("letter", names=["letters"]).body)
    drive(mail)

    mail.send("letters", "hello")
    drive()

    assert (mail.status, mail.output, mail.waiting_for) == ("completed", "hello", None)


@pytest.mark.parametrize("queue", ["letters", "parcels"])
def test_queue_03_any_of_several_queues_satisfies_the_wait(queue):
    """The listed order is kept, duplicates are dropped, and the message says where it came from."""

    def wait(ctx):
        message = ctx.queue.next("post", names=["parcels", "letters", "parcels"])
        return [message.name, message.body]

    mail = reader(wait)
    drive(mail)
    assert mail.waiting_for == ["parcels", "letters"]

    mail.send(queue, "hello")

    assert drive(mail) == "completed"
    assert mail.output == [queue, "hello"]


@pytest.mark.parametrize("names", [None, [], ()])
def test_queue_04_no_names_mean_any_queue(names):
    """What is waited for is then an empty list, which is not the same as waiting for no message."""
    mail = reader(lambda ctx: ctx.queue.next("post", names=names).name)
    drive(mail)
    assert mail.waiting_for == []

    mail.send("parcels", "box")

    assert drive(mail) == "completed"
    assert mail.output == "parcels"


def test_queue_05_a_message_that_is_there_is_taken_without_waiting():
    """One drive is enough: the claim, and the release with the receive in it."""
    mail = reader(lambda ctx: ctx.queue.next("letter").body)
    mail.send("letters", "hello")

    with count_commits() as commits:
        drive()

    assert (mail.status, mail.output) == ("completed", "hello")
    assert commits.count == 2
    assert queued(mail) == []


def test_queue_06_a_message_sent_during_a_step_is_seen_in_the_same_drive():
    """What arrives while the workflow is busy needs no further drive."""

    class Mail(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("write", self.write)
            return ctx.queue.next("letter").body

        def write(self):
            Mail.get("one").send("letters", "to myself")

    mail = Mail.create("one")

    with count_commits() as commits:
        drive()

    assert (mail.status, mail.output) == ("completed", "to myself")
    assert commits.count == 3, "the claim, the step and the release"


def test_queue_07_a_message_has_an_id_a_name_a_body_and_a_time():
    """The receipt's id, the queue, what was sent, and when; `complete()` is only there where it was asked for."""
    seen = []

    def wait(ctx):
        seen.append(ctx.queue.next("letter"))
        ctx.queue.next("never")

    mail = reader(wait)
    receipt = mail.send("letters", "hello")
    drive(mail)
    mail.send("letters", "again")
    drive(mail)

    first, replayed = seen
    assert first == replayed
    assert (first.id, first.name, first.body) == (receipt.id, "letters", "hello")
    assert first.created_at == Message.objects.get(pk=receipt.id).created_at
    assert not hasattr(first, "complete")


def test_queue_07_a_body_is_what_its_queue_declares_on_a_replay_too():
    """A model that was sent comes back as that model, whether just received or read from the history."""

    class Order(BaseModel):
        item: str
        count: int = 1

    seen = []

    class Shop(Actor):
        orders = Queue(Order)

        @workflow
        def run(self, ctx):
            seen.append(ctx.queue.next("order").body)
            ctx.queue.next("another")

    shop = Shop.create("one")
    shop.send("orders", {"item": "pen"})
    drive(shop)
    shop.send("orders", Order(item="ink", count=2))
    drive(shop)

    assert seen == [Order(item="pen", count=1)] * 2


def test_queue_19_a_wait_has_a_name_of_its_own_in_its_iteration(outside):
    """Calling the same wait twice in one iteration is refused, and takes no second message."""

    def wait(ctx):
        for turn in ctx.loop("read"):
            outside.append(turn.queue.next("letter").body)
            outside.append(turn.queue.next("letter").body)

    mail = reader(wait)
    for body in ("a", "b"):
        mail.send("letters", body)
    drive(mail)

    assert mail.error.name == "HistoryDivergedError"
    assert "'letter' was used before in iteration 0" in mail.error.message
    assert outside == ["a"]
    assert ("letters", '"b"') in queued(mail)


def test_queue_32_a_message_for_another_queue_neither_satisfies_nor_disturbs(outside):
    """The wait goes on, the message stays where it is, and is there for who asks for it."""

    def wait(ctx):
        outside.append("enter")
        letter = ctx.queue.next("letter", names=["letters"]).body
        return [letter, ctx.queue.next("parcel", names=["parcels"], timeout=0).body]

    mail = reader(wait)
    drive(mail)
    mail.send("parcels", "box")

    drive()
    assert outside == ["enter"], "a message that nobody waits for makes nobody due"
    assert queued(mail) == [("parcels", '"box"')]

    mail.send("letters", "hello")
    assert drive(mail) == "completed"
    assert mail.output == ["hello", "box"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"names": "letters"}, "InvalidStepError"),
        ({"names": ["nobody"]}, "UnknownQueueError"),
        ({"timeout": "5"}, "InvalidStepError"),
        ({"timeout": float("nan")}, "InvalidStepError"),
        ({"timeout": True}, "InvalidStepError"),
        ({"timeout": 1e12}, "InvalidStepError"),
    ],
    ids=str,
)
def test_a_wait_refuses_what_it_could_not_wait_for(options, error):
    """A mistake in the arguments fails the workflow at once, and the error names it."""
    mail = reader(lambda ctx: ctx.queue.next("letter", **options))

    assert drive(mail) == "failed"
    assert mail.error.name == error
    assert len(mail.history()) == 0
