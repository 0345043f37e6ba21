"""Bodies that end their worker process: they are stopped, whichever way they do it, and only they."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_rivet.testing import isolated_actors
from tests.journeys.conftest import StartWorker
from tests.journeys.deadly.shop import define_shop
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

MAX_TAKEOVERS = 3
DEADLY = ["abort", "exit", "vanish", "interrupt", "killed for its memory"]


@pytest.mark.timeout(300)
def test_an_order_that_ends_its_worker_process_is_given_up_and_what_waits_behind_it_is_done(
    start_worker: StartWorker, child_environment: dict[str, str], ledger: Path
) -> None:
    """After as many workers as were allowed to it; the others are handled in order, and no other actor is held up."""
    # Given shops that each have one deadly order among good ones, and one that has none
    child_environment["DJANGO_SETTINGS_MODULE"] = "tests.journeys.deadly.settings"
    with isolated_actors():
        shop = define_shop()
        shops = {kind: shop.create(kind) for kind in [*DEADLY, "good"]}
        for kind, actor in shops.items():
            for order in ["a", kind, "b", "c"]:
                actor.send("orders", order)

        # When a worker takes them on
        worker = start_worker("--concurrency=2", LEASE_SECONDS=1, SWEEP_SECONDS=0.2, MAX_TAKEOVERS=MAX_TAKEOVERS)

        # Then all are done
        eventually(
            lambda: all(len(actor.state.log) == 4 for actor in shops.values()), 120, "all orders end", worker.log
        )
        for kind, actor in shops.items():
            end = "sold" if kind == "good" else "interrupted"
            assert actor.state.log == ["a sold", f"{kind} {end}", "b sold", "c sold"]
            assert actor.status == "sleeping"
        for kind in DEADLY:
            assert shops[kind].history()["orders/1/sell"].error.name == "StepInterruptedError"

    # And no deadly order was tried more often than that, each time under one key
    tries = {kind: list(effects(ledger)[kind].values()) for kind in DEADLY}
    assert tries == {kind: [MAX_TAKEOVERS] for kind in DEADLY}
