"""The process dies at each commit in turn: before it, or right after it."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest

from django_rivet.models import Compensation, Event, Message
from django_rivet.testing import SimulatedCrash, count_commits, crash_at, drive

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS = [{"id": "good"}, {"id": "bad", "fails": True}, {"id": "late"}]


def commits_of_an_undisturbed_run(shop: SimpleNamespace) -> int:
    actor = shop.Checkout.create("undisturbed")
    for order in ORDERS:
        actor.send("orders", order)
    with count_commits() as commits:
        drive(actor)
    return commits.count


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_commit_changes_no_outcome(shop: SimpleNamespace, after: bool) -> None:
    """Each order ends confirmed once or compensated once, no completed step runs twice, no message is lost."""
    # Given how many commits the orders take, forward and in rollback
    commits = commits_of_an_undisturbed_run(shop)
    shop.Stock.get("main").release("reserve-good")
    shop.Stock.get("main").release("reserve-late")

    for n in range(1, commits + 1):
        # When the process dies at the n-th
        shop.calls.clear()
        actor = shop.Checkout.create(f"crash-{n}")
        for order in ORDERS:
            actor.send("orders", order)
        with suppress(SimulatedCrash), crash_at(n, after) as point:
            drive(actor)
        assert point.crashed, n
        drive(actor)

        # Then the outcome is that of an undisturbed run
        assert (actor.state.completed, actor.state.rejected) == (["good", "late"], ["bad"]), n
        assert shop.Stock.get("main").state.reserved == ["good", "late"], n
        assert not Message.objects.filter(status="queued").exists(), n
        undone = Compensation.objects.filter(actor_id=actor.id, path__startswith="checkout/1/")
        assert {c.path.rpartition("/")[2]: c.status for c in undone} == {"reserve": "completed", "charge": "completed"}
        events = Event.objects.filter(actor_id=actor.id).order_by("seq").values_list("seq", "name")
        assert list(events) == [(1, "order_failed")], "the failure was reported once"

        # And what was not atomic came at most once more, for the one crash
        again = [call for call in set(shop.calls) if shop.calls.count(call) > 1]
        assert len(again) <= 1, (n, again)
        shop.Stock.get("main").release("reserve-good")
        shop.Stock.get("main").release("reserve-late")
