"""HANDLE-04 and ACTOR-11: wait for a workflow's result, and for the answer to a message."""

from contextlib import contextmanager

import pytest
from asgiref.sync import async_to_sync
from pydantic import BaseModel

from django_rivet import (
    Actor,
    ActorNotFoundError,
    CriticalError,
    Queue,
    WorkflowCancelledError,
    WorkflowFailedError,
    workflow,
)
from django_rivet.models import Message
from django_rivet.runtime.waiting import meanwhile
from django_rivet.testing import advance, drive, serving

pytestmark = pytest.mark.django_db


class Quote(BaseModel):
    price: int


class Seller(Actor):
    """Answers what it is asked, in its own ways."""

    class Meta:
        abstract = True

    questions = Queue(str, Quote)
    notes = Queue(str)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("questions"):
            question = turn.queue.next("question", completable=True)
            if question.body == "fail":
                raise LookupError("no such thing")
            if question.body == "return":
                return
            if question.body == "think":
                turn.sleep("think", 3600)
            if question.name == "notes":
                question.complete()
            else:
                question.complete({"price": len(question.body)})


def send_and_wait(handle, *args):
    return handle.send_and_wait(*args)


def asend_and_wait(handle, *args):
    return async_to_sync(handle.asend_and_wait)(*args)


@contextmanager
def looking_after(work):
    """Somebody does `work` between the sending and the first look."""
    token = meanwhile.set(work)
    try:
        yield
    finally:
        meanwhile.reset(token)


both = pytest.mark.parametrize("ask", [send_and_wait, asend_and_wait])


@pytest.fixture
def seller():
    class Shop(Seller):
        pass

    return Shop.create("main")


@both
def test_actor_11_who_waits_gets_the_response(seller, ask):
    """As the type that the queue declares, and at once where it is there."""
    with serving():
        answer = ask(seller, "questions", "pencil", 30)

    assert (answer.status, answer.response) == ("completed", Quote(price=6))


@both
def test_actor_11_a_response_may_be_nothing(seller, ask):
    """That it was completed is told all the same; no declared response type is needed."""
    with serving():
        answer = ask(seller, "notes", "hello", 30)

    assert (answer.status, answer.response) == ("completed", None)


@both
def test_actor_11_without_an_answer_in_time_it_timed_out(seller, ask):
    """The message stays where it is, and is worked on later."""
    answer = ask(seller, "questions", "pencil", 0.02)

    assert (answer.status, answer.response) == ("timed_out", None)
    assert Message.objects.get().status == "queued"
    drive(seller)
    assert Message.objects.get().status == "completed"


def test_actor_11_a_time_out_of_nothing_is_one_look(seller):
    """It sends, looks once, and tells what it saw."""
    assert seller.send_and_wait("questions", "pencil", 0).status == "timed_out"
    with serving():
        assert seller.send_and_wait("questions", "pen", 0).response == Quote(price=3)


@pytest.mark.parametrize("body", ["fail", "return"])
def test_actor_11_a_workflow_that_ends_first_has_failed_the_message(seller, body):
    """Whoever waits is told at once, and not left to the time-out."""
    with serving():
        assert seller.send_and_wait("questions", body, 60).status == "failed"


@pytest.mark.parametrize("end", ["cancel", "destroy"])
def test_actor_11_cancelled_or_destroyed_with_an_open_message_it_has_failed(seller, end):
    """The message was taken, and nobody will complete it any more."""
    seller.send("questions", "think", idempotency_key="k")
    drive(seller)
    assert Message.objects.get().status == "open"

    with looking_after(getattr(seller, end)):
        assert seller.send_and_wait("questions", "think", 60, idempotency_key="k").status == "failed"


def test_actor_11_a_failed_workflow_fails_what_it_did_not_come_to(seller):
    """The message is stored, and worked on after `recover()`; but nobody should wait for that."""
    seller.send("questions", "fail")
    drive(seller)

    answer = seller.send_and_wait("questions", "pencil", 60)

    assert answer.status == "failed"
    assert list(Message.objects.order_by("id").values_list("status", flat=True)) == ["open", "queued"]


def test_actor_11_the_same_idempotency_key_waits_for_the_same_message(seller):
    """After a time-out one can ask again: there is one message, and it is answered once, also after that."""
    first = seller.send_and_wait("questions", "think", 0, idempotency_key="k")
    with serving():
        again = seller.send_and_wait("questions", "think", 0, idempotency_key="k")
        advance(3600)
        last = seller.send_and_wait("questions", "think", 60, idempotency_key="k")
    late = seller.send_and_wait("questions", "think", 0, idempotency_key="k")

    assert [each.status for each in (first, again, last, late)] == ["timed_out", "timed_out", "completed", "completed"]
    assert last.response == late.response == Quote(price=5)
    assert Message.objects.count() == 1


def test_actor_11_a_message_that_is_taken_for_good_is_completed():
    """A workflow that never completes anything has no response to give."""

    class Reader(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("letters"):
                turn.queue.next("letter")

    with serving():
        answer = Reader.create("one").send_and_wait("letters", "hello", 60)

    assert (answer.status, answer.response) == ("completed", None)


# result() ----------------------------------------------------------------------------------------


def result(handle, timeout=None):
    return handle.result(timeout)


def aresult(handle, timeout=None):
    return async_to_sync(handle.aresult)(timeout)


results = pytest.mark.parametrize("ask", [result, aresult])


def order(work):
    class Order(Actor):
        @workflow
        def run(self, ctx):
            return work(ctx)

        def undo(self, rollback, output):
            raise CriticalError("cannot be undone")

    return Order.create("one")


@results
@pytest.mark.parametrize("value", [None, 0, {"total": 3}])
def test_handle_04_result_is_what_the_workflow_returned(ask, value):
    """Waited for, and afterwards for as often as one likes."""
    handle = order(lambda ctx: ctx.step("work", lambda: value))

    with serving():
        assert ask(handle) == value
    assert ask(handle, 0) == value


@results
def test_handle_04_result_raises_the_workflows_error(ask):
    """Name and message, as data and in the text."""

    def work(ctx):
        raise CriticalError("declined")

    handle = order(work)
    drive(handle)

    with pytest.raises(WorkflowFailedError, match="CriticalError: declined") as raised:
        ask(handle)
    assert (raised.value.error.name, raised.value.error.message) == ("CriticalError", "declined")


def test_handle_04_result_raises_where_the_rollback_failed():
    """An operator has to decide; the error is what failed the workflow."""

    def work(ctx):
        ctx.rollback_checkpoint("begin")
        ctx.step("do", int, rollback=ctx.actor.undo)
        raise LookupError("too late")

    handle = order(work)
    assert drive(handle) == "rollback_failed"

    with pytest.raises(WorkflowFailedError, match="too late"):
        handle.result()


@pytest.mark.parametrize("is_undone", [True, False])
def test_handle_04_result_tells_that_it_was_cancelled(is_undone):
    """A cancellation whose rollback has failed is a failure: something is left to do."""

    def work(ctx):
        ctx.rollback_checkpoint("begin")
        if not is_undone:
            ctx.step("do", int, rollback=ctx.actor.undo)
        ctx.sleep("wait", 60)

    handle = order(work)
    drive(handle)
    handle.cancel(rollback=True)
    drive(handle)

    with pytest.raises(WorkflowCancelledError if is_undone else WorkflowFailedError, match="was cancelled"):
        handle.result()


@results
def test_handle_04_result_in_time_or_a_timeout_error(ask):
    """Python's own, with a sentence; the workflow goes on."""
    handle = order(lambda ctx: ctx.sleep("wait", 60))

    with pytest.raises(TimeoutError, match=r"'one'> has not ended after 0\.02 s"):
        ask(handle, 0.02)
    drive(handle)
    advance(60)
    assert drive(handle) == "completed"


def test_handle_04_a_destroyed_actor_has_no_result():
    """It is told as everywhere else."""
    handle = order(lambda ctx: None)
    handle.destroy()

    with pytest.raises(ActorNotFoundError, match="does not exist any more"):
        handle.result()


def test_handle_04_an_actor_without_a_workflow_has_no_result():
    """It would be waited for in vain."""

    class Shelf(Actor):
        pass

    with pytest.raises(TypeError, match="declares no workflow"):
        Shelf.create("one").result()
