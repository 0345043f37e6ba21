"""HANDLE: what somebody outside sends, sees and starts. ``wake()`` and ``result()``: see their own files."""

import uuid
from contextlib import suppress

import pytest
from django.db import transaction

from django_rivet import Actor, ActorNotFoundError, CriticalError, Queue, workflow
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker
from django_rivet.store.runs import due_actors
from django_rivet.testing import count_commits, drive

pytestmark = pytest.mark.django_db


def drive_only_once(handle):
    return drive_once(uuid.UUID(handle.id), in_process_worker("one drive"))


@pytest.fixture
def reader(outside):
    """An actor class that reads letters, and answers each with whatever is in ``replies``."""

    class Reader(Actor):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("letters"):
                letter = turn.queue.next("letter", names=["letters"])
                turn.step("read", self.read, letter.name, letter.body)

        def read(self, queue, letter):
            outside.append((queue, letter))
            if letter == "write back":
                Reader.get(self.key).send("letters", "an answer")

    return Reader


def test_handle_01_a_message_is_queued_and_taken_by_the_next_drive(reader, outside):
    """Sending does none of the work: the receipt says ``queued``, and a waiting actor is due from then on."""
    one = reader.create("one")
    drive(one)

    receipt = one.send("letters", "hello")

    assert receipt.status == "queued"
    assert (outside, one.status) == ([], "sleeping")
    assert [due.actor_id for due in due_actors(10)] == [uuid.UUID(one.id)]
    assert drive_only_once(one)
    assert outside == [("letters", "hello")]
    assert due_actors(10) == []


def test_handle_01_a_message_to_an_actor_at_work_is_taken_in_the_same_drive(reader, outside):
    """What comes in before it waits again needs no second drive."""
    one = reader.create("one")
    one.send("letters", "write back")

    with count_commits() as commits:
        assert drive_only_once(one)

    assert outside == [("letters", "write back"), ("letters", "an answer")]
    assert commits.count == 4, "one claim, a step for each letter, one release"


@pytest.mark.parametrize("output", [None, 0, {"total": 3}])
def test_handle_03_after_completion_output_and_status_are_there(output):
    """Also one that is nothing; for every handle to this actor, and to stay."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return output

    drive(Order.create("one"))

    order = Order.get("one")
    assert (order.status, order.output, order.error) == ("completed", output, None)
    seen = order.snapshot()
    assert (seen.status, seen.output, seen.error) == ("completed", output, None)
    assert drive(order) == "completed"
    assert Order.get_or_create("one").output == output


def test_handle_04_with_nothing_stored_it_is_pending_and_there_is_no_output():
    """No error, no history, nothing waited for either."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return "done"

    order = Order.create("one")

    seen = order.snapshot()
    assert (seen.status, seen.output, seen.error, seen.waiting_for) == ("pending", None, None, None)
    assert (order.status, order.output, order.error, list(order.history())) == ("pending", None, None, [])


def test_handle_04_after_a_failure_the_workflow_s_error_is_there():
    """Name and message, and both in its text; the output stays empty."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            raise CriticalError("declined")

    order = Order.create("one")
    drive(order)

    assert (order.status, order.output) == ("failed", None)
    assert (order.error.name, order.error.message) == ("CriticalError", "declined")
    assert str(order.error) == "CriticalError: declined"


@pytest.mark.parametrize("make", ["create", "get_or_create"])
def test_handle_05_execution_starts_when_the_actor_is_made(outside, make):
    """Nobody has to start it; a handle to one that is there starts nothing a second time."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("begin", outside.append, "began")

    order = getattr(Order, make)("one")

    assert (order.created, order.status) == (True, "pending")
    assert [due.actor_id for due in due_actors(10)] == [uuid.UUID(order.id)]
    drive()
    assert outside == ["began"]
    again = Order.get_or_create("one")
    assert again.created is False
    assert Order.get("one").created is False
    drive()
    assert outside == ["began"]


@pytest.mark.django_db(transaction=True)
def test_handle_05_what_is_made_in_a_transaction_starts_with_its_commit(outside):
    """Rolled back, nothing was made and nothing runs."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("begin", outside.append, self.key)

    class UndoneError(Exception):
        pass

    with suppress(UndoneError), transaction.atomic():
        Order.create("undone")
        raise UndoneError
    with transaction.atomic():
        Order.create("kept")
    drive()

    assert outside == ["kept"]
    with pytest.raises(ActorNotFoundError):
        Order.get("undone")
