"""What was reported of other engines, tried on this one: the parent stops while its child's worker is dead."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.journeys.conftest import StartWorker
from tests.journeys.cross_actors import PurchaseActor, ShelfActor
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

QUICK = {"LEASE_SECONDS": 1.0, "SWEEP_SECONDS": 0.2}
DEAD_SECONDS = 3.0


@pytest.mark.timeout(300)
def test_a_release_waits_for_a_shelf_whose_worker_is_dead(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """The purchase fails and ends without it; when somebody drives the shelf again, it is released, once."""
    # Given a purchase that has its reservation, and a shelf that is being counted
    shop = start_worker("--concurrency=1", "--queues=celery", broker=redis_url, **QUICK)
    keeper = start_worker("--concurrency=1", "--queues=shelf", broker=redis_url, **QUICK)
    shelf = ShelfActor.create("main")
    purchase = PurchaseActor.create("book")
    eventually(lambda: purchase.waiting_for == ["orders"], 60, "it has its reservation", shop.log)
    shelf.send("requests", "count")
    eventually(lambda: "count" in effects(ledger), 60, "the shelf is being counted", keeper.log)

    # When the shelf's worker is killed, and then the purchase fails
    keeper.kill()
    purchase.send("orders", "pay")
    eventually(lambda: purchase.status == "failed", 60, "the purchase is rolled back", shop.log)
    time.sleep(DEAD_SECONDS)
    assert shelf.state.log == ["reserve book"]
    assert purchase.history()["reserve"].rollback.status == "completed"

    # Then another worker ends the count under its key, and releases once
    heir = start_worker("--concurrency=1", "--queues=shelf", broker=redis_url, **QUICK)
    eventually(lambda: shelf.state.reserved == [], 60, "it is released", heir.log)
    eventually(lambda: shelf.status == "sleeping", 60, "the shelf waits again", heir.log)
    assert shelf.state.log == ["reserve book", "release book"]
    assert list(effects(ledger)["count"].values()) == [2]
