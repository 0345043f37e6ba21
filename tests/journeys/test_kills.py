"""Workers die; what they were at is finished by others, once."""

from __future__ import annotations

import random
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from django_rivet.models import Message
from tests.journeys.actors import LongChargeActor, OrderActor, StockActor
from tests.journeys.conftest import LEASE_SECONDS, StartWorker
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

SWEEP_SECONDS = 1.0
KILLS = 20
ACTORS = 4
ORDERS_BETWEEN_KILLS = 3


def test_an_order_whose_worker_is_killed_is_finished_by_a_free_one_in_time(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """With a free worker, a killed one costs at most its lease, one sweep and a second."""
    # Given a worker in the middle of a charge, and another one that is free
    first = start_worker("--concurrency=1", broker=redis_url)
    actor = LongChargeActor.create("order")
    eventually(lambda: "begin" in effects(ledger), 30, "the charge begins", first.log)
    second = start_worker("--concurrency=1", broker=redis_url)
    eventually(lambda: second.is_ready, 30, "the second worker is ready", second.log)

    # When the first is killed
    first.kill()

    # Then the other finishes the order
    took = eventually(lambda: actor.status == "completed", 30, "the order is finished", second.log)
    assert took <= LEASE_SECONDS + SWEEP_SECONDS + 1
    assert Effect.objects.filter(name="reserve").count() == 1
    begun = effects(ledger)
    assert sum(begun["charge"].values()) == 1
    assert len(begun["begin"] | begun["charge"]) == 1, "both attempts carry one idempotency key"
    assert actor.history()["charge"].attempts == 2


def is_begun(ledger: Path, kill: int) -> bool:
    """Somebody works on orders that were sent after so many kills."""
    return ledger.exists() and f"-{kill}-" in ledger.read_text()


def test_twenty_kills_at_random_moments_lose_and_double_nothing(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """Every order ends confirmed once or compensated once, and no atomic effect comes twice."""
    # Given three workers
    handles = [OrderActor.create(f"actor-{n}") for n in range(ACTORS)]
    workers = [start_worker("--concurrency=1", broker=redis_url) for _ in range(3)]
    eventually(lambda: all(w.is_ready for w in workers), 60, "the workers are ready", workers[-1].log)

    # When orders keep coming, a third of which cannot be shipped, and twenty times a worker is killed and replaced
    orders = []
    for kill in range(KILLS):
        for actor, handle in enumerate(handles):
            for n in range(ORDERS_BETWEEN_KILLS):
                orders.append((f"{actor}-{kill}-{n}", n % 3 == 2))
                handle.send("orders", {"id": orders[-1][0], "fails": orders[-1][1]})
        eventually(partial(is_begun, ledger, kill), 60, "somebody is at work", workers[-1].log)
        time.sleep(random.uniform(0.0, 0.15))
        victim = random.choice([w for w in workers if w.is_ready] or workers)
        victim.kill()
        workers.remove(victim)
        workers.append(start_worker("--concurrency=1", broker=redis_url))

    # Then all is worked off
    def all_done() -> bool:
        queued = Message.objects.filter(status="queued").exists()
        return not queued and all(handle.status == "sleeping" for handle in handles)

    eventually(all_done, 120, "all orders end", workers[-1].log)
    confirmed = sorted(order for handle in handles for order in handle.state.confirmed)
    rejected = sorted(order for handle in handles for order in handle.state.rejected)
    assert confirmed == sorted(order for order, fails in orders if not fails)
    assert rejected == sorted(order for order, fails in orders if fails)
    assert sorted(StockActor.get("main").state.reserved) == confirmed

    # And every atomic effect came exactly once
    wanted = [f"reserve:{order}" for order, _ in orders]
    wanted += [f"confirm:{order}" for order in confirmed] + [f"release:{order}" for order in rejected]
    assert Counter(Effect.objects.values_list("name", flat=True)) == Counter(wanted)

    # And the outside saw one key for all attempts of one charge or refund
    seen = effects(ledger)
    assert {effect for effect, keys in seen.items() if len(keys) != 1} == set()
    assert {e for e in seen if e.startswith("refund:")} == {f"refund:{order}" for order in rejected}
    assert {e for e in seen if e.startswith("charge:")} == {f"charge:{order}" for order, _ in orders}

    # And the kills did hit work: some bodies began once more than they came to their effect
    begun = sum(sum(keys.values()) for effect, keys in seen.items() if effect.startswith("begin:"))
    charged = sum(sum(keys.values()) for effect, keys in seen.items() if effect.startswith("charge:"))
    assert begun > len(orders) or charged > len(orders)
