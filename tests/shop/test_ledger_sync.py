"""The error hook: a sync that fails is retried by the clock, and whoever watches learns of each failure."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from django_rivet.models import Event
from django_rivet.testing import SimulatedCrash
from example_project.shop import gateway
from example_project.shop.actors import CheckoutActor, LedgerSyncActor
from example_project.shop.models import GatewayCard

pytestmark = pytest.mark.django_db(transaction=True)

PAUSES = [0.5, 1, 1]
"""Seconds: a base of 0.25 doubled with each attempt, up to the maximum of 1."""


def broadcasts(sync):
    events = Event.objects.filter(actor_id=sync.id).order_by("seq")
    return [(event.seq, event.name, json.loads(event.payload)) for event in events]


def run_to_its_end(sync, rivet):
    status = rivet.drive(sync)
    while status == "sleeping":
        rivet.advance(1)
        status = rivet.drive(sync)
    return status


def test_a_good_sync_keeps_the_total(rivet):
    """With a gateway that answers there is nothing to tell."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "order"})
    rivet.drive(checkout)
    sync = LedgerSyncActor.create("valid")

    assert rivet.drive(sync) == "completed"

    assert sync.state.total == gateway.PRICE
    assert broadcasts(sync) == []


def test_a_failing_sync_is_retried_three_times_after_half_a_second_and_one_and_one(rivet):
    """RETRY: not a moment earlier, and the fourth failure is the last."""
    sync = LedgerSyncActor.create("unreachable")

    status, attempts = rivet.drive(sync), []
    for pause in PAUSES:
        fetch = sync.history()["fetch"]
        attempts.append(fetch.attempts)
        assert status == "sleeping"
        assert (fetch.due_at - fetch.ended_at).total_seconds() == pytest.approx(pause, abs=0.2)
        rivet.advance(pause)
        status = rivet.drive(sync)

    assert status == "failed"
    assert [*attempts, sync.history()["fetch"].attempts] == [1, 2, 3, 4]


def test_each_failure_is_broadcast_and_the_last_one_stands_in_state(rivet):
    """ONERROR: one event for each attempt, in order, and what the hook kept is what it said last."""
    sync = LedgerSyncActor.create("unreachable")

    assert run_to_its_end(sync, rivet) == "failed"

    told = broadcasts(sync)
    assert [(seq, name) for seq, name, _ in told] == [(number, "sync_failed") for number in (1, 2, 3, 4)]
    failures = [payload for _, _, payload in told]
    assert [(each["attempt"], each["retry_delay"]) for each in failures] == [(1, 0.5), (2, 1), (3, 1), (4, None)]
    last = sync.state.last_error
    assert (last["kind"], last["step_name"], last["attempt"], last["will_retry"]) == ("step", "fetch", 4, False)
    assert last["error"]["name"] == "GatewayUnavailable"
    assert last["error"]["message"] == "the ledger of 'unreachable' could not be reached"
    assert sync.state.total is None


def test_a_sync_that_gets_through_forgets_its_failures(rivet):
    """Two failures, then an answer: state tells of the answer, the events of both failures."""
    sync = LedgerSyncActor.create("flaky")

    assert run_to_its_end(sync, rivet) == "completed"

    assert sync.history()["fetch"].attempts == 3
    assert (sync.state.total, sync.state.last_error) == (0, None)
    assert [payload["attempt"] for _, _, payload in broadcasts(sync)] == [1, 2]


def test_recover_asks_again_when_the_gateway_is_back(rivet):
    """A failed sync is no dead end."""
    sync = LedgerSyncActor.create("books")
    assert run_to_its_end(sync, rivet) == "failed"

    GatewayCard.objects.create(number="books", behaviour="valid")
    assert sync.recover()

    assert rivet.drive(sync) == "completed"
    assert (sync.state.total, sync.state.last_error) == (0, None)


@pytest.mark.parametrize("after", [False, True], ids=["before-the-commit", "after-the-commit"])
def test_whatever_commit_a_worker_dies_at_no_failure_is_told_twice(rivet, after):
    """A crash may make the gateway be asked once more; failures on record are four, told once, with their state."""
    number, crashed = 0, True
    while crashed:
        number += 1
        sync = LedgerSyncActor.create(f"unreachable-{number}")
        with rivet.crash_at(number, after=after) as point, suppress(SimulatedCrash):
            run_to_its_end(sync, rivet)
        crashed = point.crashed

        assert run_to_its_end(sync, rivet) == "failed"

        told = [payload["attempt"] for _, _, payload in broadcasts(sync)]
        assert told == [1, 2, 3, 4], f"crash at {number}"
        assert sync.state.last_error["attempt"] == 4
        assert sync.history()["fetch"].attempts in (4, 5)
    assert number > 8
