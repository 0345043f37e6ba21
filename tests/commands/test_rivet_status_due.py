"""``manage.py rivet_status``: who is overdue, who drives, and which message waits longest."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from unittest.mock import ANY

import pytest

from django_rivet.models import Actor as ActorRow
from django_rivet.models import Message, WorkflowRun
from django_rivet.store import overdue, overview
from django_rivet.store.runs import due_actors
from tests.commands.output import status, table

pytestmark = pytest.mark.django_db


# Overdue -----------------------------------------------------------------------------------------


def test_what_nobody_takes_is_overdue_after_five_sweeps(shop, rivet, settings):
    """A worker that is merely about to look is given the time to."""
    settings.RIVET = {"SWEEP_SECONDS": 2}
    shop.create("main")

    rivet.advance(9)
    assert status()["overdue"]["count"] == 0

    rivet.advance(2)
    assert status()["overdue"] == {
        "after_seconds": 10.0,
        "count": 1,
        "oldest_seconds": pytest.approx(11, abs=2),
        "oldest": [{"type": "tests.Shop", "key": "main", "status": "pending", "seconds": ANY}],
    }


def test_the_three_oldest_are_named_and_all_are_counted(shop, rivet):
    """Those that have waited longest come first."""
    for key in ("first", "second", "third", "fourth"):
        shop.create(key)
        rivet.advance(10)

    overdue = status()["overdue"]

    assert overdue["count"] == 4
    assert [each["key"] for each in overdue["oldest"]] == ["first", "second", "third"]
    assert overdue["oldest_seconds"] == overdue["oldest"][0]["seconds"] == pytest.approx(40, abs=2)


def test_an_actor_whose_message_nobody_takes_is_overdue(shop, rivet):
    """It has no due time of its own: the message is what makes it due."""
    handle = shop.create("main")
    rivet.drive(handle)
    rivet.advance(3600)
    handle.send("orders", {"id": "order-1"})
    rivet.advance(60)

    assert status()["overdue"]["oldest_seconds"] == pytest.approx(60, abs=2)


def test_a_message_that_nobody_waits_for_makes_nothing_overdue(shop, rivet):
    """It lies in another queue than the one that the workflow asks for."""
    handle = shop.create("main")
    rivet.drive(handle)
    handle.send("returns", {"id": "order-1"})
    rivet.advance(60)

    assert status()["overdue"]["count"] == 0
    assert status()["oldest_message"]["queue"] == "returns"


def test_a_busy_actor_with_a_backlog_is_not_overdue(shop, rivet):
    """What counts is how long nobody has taken the actor, not how long its last message has lain there."""
    handle = shop.create("main")
    rivet.drive(handle)
    handle.send("orders", {"id": "order-1"})
    rivet.advance(3600)
    WorkflowRun.objects.filter(pk=handle.id).update(updated_at=rivet.now())

    assert status()["overdue"]["count"] == 0
    assert status()["oldest_message"]["seconds"] == pytest.approx(3600, abs=2)


def test_due_is_what_the_sweeper_takes_for_due(monkeypatch, rivet):
    """In every status, with and without lease, due time, awaited queue and message: the two agree."""
    monkeypatch.setattr(overdue, "SHOWN_OVERDUE", 10_000)
    now = rivet.now()
    past, future = now - timedelta(minutes=1), now + timedelta(minutes=1)
    leases = [(None, None), ("host:1:a", past), ("host:1:a", future)]
    situations = list(
        product(WorkflowRun.Status.values, leases, [None, past, future], [None, ",", ",a,", ",b,a,", ",A,", ",c,"])
    )
    actors = ActorRow.objects.bulk_create(
        ActorRow(type="tests.Any", key=str(number), created_at=past) for number in range(len(situations))
    )
    WorkflowRun.objects.bulk_create(
        WorkflowRun(
            actor=actor, status=run, holder=holder, lease_until=until, due_at=due_at, waiting=waiting, updated_at=past
        )
        for actor, (run, (holder, until), due_at, waiting) in zip(actors, situations, strict=True)
    )
    for queue, visible_at, state in [("a", past, "queued"), ("b", future, "queued"), ("c", past, "handled")]:
        Message.objects.bulk_create(
            Message(actor=each, queue=queue, body="{}", status=state, created_at=past, visible_at=visible_at)
            for each in actors
        )

    found = overview.overview(0).overdue
    due = {each.actor_id for each in due_actors(10_000)}

    assert {each.key for each in found.oldest} == {actor.key for actor in actors if actor.pk in due}
    assert found.count == len(due) > 100


# Leases ------------------------------------------------------------------------------------------


def test_a_worker_is_seen_by_what_it_drives(shop, rivet):
    """Each drive has a name of its own; those of one process are one worker."""
    for key, holder in (("one", "red:7:aa"), ("two", "red:7:bb"), ("three", "blue:7:cc")):
        hold(shop.create(key), holder, rivet.now() + timedelta(minutes=1))

    found = status()

    assert (found["held"], found["dead_leases"], found["workers"]) == (3, 0, ["blue:7", "red:7"])
    assert "workers                      2   blue:7, red:7" in table()


def test_an_actor_whose_worker_died_has_a_dead_lease_and_is_overdue(shop, rivet):
    """A dead lease is told at once, and is overdue when nobody takes it over."""
    hold(shop.create("main"), "red:7:aa", rivet.now() + timedelta(seconds=10))

    rivet.advance(12)
    found = status()
    assert (found["held"], found["dead_leases"], found["workers"], found["overdue"]["count"]) == (0, 1, [], 0)

    rivet.advance(10)
    assert status()["overdue"]["oldest_seconds"] == pytest.approx(12, abs=2)


def test_takeovers_are_summed_over_all_actors(shop):
    """A step that kills its workers shows as one actor with many."""
    for key, takeovers in (("one", 1), ("two", 4), ("three", 0)):
        WorkflowRun.objects.filter(pk=shop.create(key).id).update(takeovers=takeovers)

    assert status("--types")["takeovers"] == status()["takeovers"] == {"sum": 5, "max": 4}
    assert "takeovers                    5   at most 4 of one actor" in table()


# Messages ----------------------------------------------------------------------------------------


def test_the_oldest_message_is_one_that_could_be_taken(shop, errand, rivet):
    """Neither one that is delayed, nor one that its workflow has left behind for ever."""
    late = errand.create("done")
    late.send("jobs", {})
    rivet.drive(late)
    handle = shop.create("main")
    handle.send("orders", {"id": "order-1"}, delay=3600)
    rivet.advance(20)
    assert status()["oldest_message"] is None

    handle.send("orders", {"id": "order-2"})
    rivet.advance(20)

    assert status()["oldest_message"] == {
        "type": "tests.Shop",
        "key": "main",
        "queue": "orders",
        "seconds": pytest.approx(20, abs=2),
    }


# Below: how it is done ---------------------------------------------------------------------------


def hold(handle, holder, until):
    WorkflowRun.objects.filter(pk=handle.id).update(status="running", holder=holder, lease_until=until)
