"""Rows that somebody edited, or that a newer version wrote: they cost their own actor only, and nothing is hidden."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.models import Compensation, Entry, Message, WorkflowRun
from django_rivet.testing import advance, count_commits, drive, isolated_actors

pytestmark = pytest.mark.django_db

DAMAGED = "{no json"


@pytest.fixture
def log() -> list[Any]:
    """What was done in the world outside."""
    return []


@pytest.fixture
def trip(log: list[Any]) -> Iterator[Any]:
    """A trip that has booked a room, is asleep, and will fail when it wakes up."""
    with isolated_actors():

        class Trip(Actor):
            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("trip")
                ctx.step("room", self.book, "room", rollback=self.give_back)
                ctx.try_step("breakfast", self.fail, max_retries=0)
                ctx.sleep("night", 60)
                ctx.step("flight", self.fail, max_retries=0)

            def book(self, thing):
                log.append(f"book {thing}")
                return {"thing": thing}

            def give_back(self, rollback, booked):
                log.append(f"give back {booked['thing']}")

            def fail(self):
                raise CriticalError("no seats")

        trip = Trip.create("one")
        drive(trip)
        yield trip


@pytest.fixture
def shop(log: list[Any]) -> Iterator[Any]:
    """A shop whose only effect is in ``log``."""
    with isolated_actors():

        class Shop(Actor):
            orders = Queue(dict)

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("orders"):
                    order = turn.queue.next("order", names=["orders"]).body
                    turn.step("sell", log.append, order["id"], atomic=False)

        yield Shop


@pytest.mark.parametrize(
    "column",
    [
        {"body": DAMAGED},
        {"body": '{"$unknown": 1}'},
        {"body": '"a string, where a dict was declared"'},
    ],
    ids=["no json", "unknown tag", "another type"],
)
def test_a_message_that_cannot_be_read_stops_its_own_actor_at_once(
    shop: Any, log: list[Any], column: dict[str, str]
) -> None:
    """It is not taken again and again: one drive, one error in plain sight, and other actors go on."""
    bad, good = shop.create("bad"), shop.create("good")
    drive()
    receipts = [bad.send("orders", {"id": f"bad {n}"}) for n in range(4)]
    Message.objects.filter(pk=receipts[1].id).update(**column)
    good.send("orders", {"id": "good"})

    with count_commits() as commits:
        drive()

    assert sorted(log) == ["bad 0", "good"]
    assert commits.count < 10
    assert bad.status in {"failed", "diverged"}
    assert bad.error is not None
    assert good.status == "sleeping"


def test_a_message_that_was_repaired_is_taken_in_its_old_place(shop: Any, log: list[Any]) -> None:
    """Nothing of what waits behind it is lost or overtakes it."""
    actor = shop.create("one")
    receipts = [actor.send("orders", {"id": n}) for n in range(4)]
    broken = Message.objects.filter(pk=receipts[1].id)
    body = broken.get().body
    broken.update(body=DAMAGED)
    drive(actor)

    broken.update(body=body)
    actor.recover()
    advance(60)
    drive(actor)

    assert log == [0, 1, 2, 3]


def test_a_result_that_cannot_be_read_undoes_nothing(trip: Any, log: list[Any]) -> None:
    """Damaged, or written by newer code: nothing may be done on top of it, and no room is given back for it."""
    output = Entry.objects.get(path="room").output
    Entry.objects.filter(path="room").update(output=DAMAGED)
    advance(61)

    assert drive(trip) == "diverged"
    assert log == ["book room"]

    Entry.objects.filter(path="room").update(output=output)
    advance(60)
    assert drive(trip) == "failed"
    assert log == ["book room", "give back room"]


@pytest.mark.parametrize("column", ["args", "output"])
def test_a_rollback_whose_record_cannot_be_read_is_given_up_with_the_reason(
    trip: Any, log: list[Any], column: str
) -> None:
    """No worker dies of it, and an operator sees what is wrong."""
    Compensation.objects.update(**{column: DAMAGED})
    advance(61)

    status = drive(trip)
    for _ in range(5):
        advance(60)
        status = drive(trip)

    assert status == "rollback_failed"
    assert log == ["book room"]
    assert "workers" not in trip.history()["room"].rollback.error.message


def test_an_error_that_cannot_be_read_kills_no_worker(trip: Any) -> None:
    """Why the workflow rolls back is no longer known; that it does, and what it owes, is."""
    advance(61)
    WorkflowRun.objects.update(status="rolling_back", error=DAMAGED)

    drive(trip)

    assert trip.status in {"diverged", "failed"}


def test_a_history_with_an_error_that_cannot_be_read_is_shown(trip: Any) -> None:
    """Whoever has to find out what happened needs the rest of it."""
    Entry.objects.filter(path="breakfast").update(error=DAMAGED)

    assert DAMAGED in str(trip.history())
    assert "room  step  completed" in str(trip.history())


def test_an_actor_that_cannot_be_read_is_tried_again_ever_more_rarely(
    trip: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It neither burns the processor nor is silent: a line in the log for each try."""
    Entry.objects.filter(path="breakfast").update(error=DAMAGED)
    advance(61)
    pauses = []

    with caplog.at_level(logging.ERROR), count_commits() as commits:
        for _ in range(5):
            drive(trip)
            run = WorkflowRun.objects.get()
            assert run.due_at is not None
            pauses.append(round((run.due_at - run.updated_at).total_seconds()))
            advance(pauses[-1] + 1)

    assert pauses == [1, 2, 5, 10, 30]
    assert len(caplog.records) == 5
    assert commits.count == 10
