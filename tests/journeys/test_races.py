"""SAGA-09: primary or time-out, then the fallback; the primary's body hangs, and a worker is killed in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.conftest import StartWorker
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.racing_actors import FallbackActor
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

POOLS = pytest.mark.parametrize("pool", ["prefork", "threads"])


@POOLS
def test_saga_09_the_fallback_begins_when_the_time_is_over(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """Differs on purpose: not when the primary's body ends. A second worker finishes what the first one began."""
    first = start_worker(f"--pool={pool}", "--concurrency=2", broker=redis_url)
    actor = FallbackActor.create("one")

    # Given a primary that hangs, and a fallback in the middle of its delivery
    eventually(lambda: "begin" in effects(ledger), 60, "the fallback delivers", first.log)
    assert "hanging" in effects(ledger)
    assert "late" not in effects(ledger), "the fallback has waited for the primary"

    # When its worker is killed
    first.kill()
    second = start_worker(f"--pool={pool}", "--concurrency=2", broker=redis_url)

    # Then another one goes on behind the race
    eventually(lambda: actor.status == "completed", 60, "the order ends", second.log)
    assert actor.output == "timeout"
    assert actor.state.ordered == ["fallback", "delivered"]
    assert sorted(Effect.objects.values_list("name", flat=True)) == ["delivered", "fallback", "give back", "reserve"]
    assert actor.history()["supplier/primary"].status == "cancelled"
    assert sum(effects(ledger)["delivered"].values()) == 1
    assert len(effects(ledger)["begin"]) == 1, "both attempts have one key"


@POOLS
def test_race_11_a_worker_that_is_killed_while_the_primary_hangs_starts_no_second_race(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """The time-out goes on from when it began; the step that had ended is not run again."""
    first = start_worker(f"--pool={pool}", "--concurrency=2", broker=redis_url)
    actor = FallbackActor.create("one")
    eventually(lambda: "hanging" in effects(ledger), 60, "the primary hangs", first.log)

    first.kill()
    second = start_worker(f"--pool={pool}", "--concurrency=2", broker=redis_url)
    eventually(lambda: "begin" in effects(ledger), 60, "the fallback delivers", second.log)
    second.kill()
    third = start_worker(f"--pool={pool}", "--concurrency=2", broker=redis_url)

    eventually(lambda: actor.status == "completed", 60, "the order ends", third.log)
    assert actor.output == "timeout"
    assert sorted(Effect.objects.values_list("name", flat=True)) == ["delivered", "fallback", "give back", "reserve"]
