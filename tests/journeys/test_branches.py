"""Real workers run the branches of a join at the same time, die in the middle of them, and others finish them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.conftest import StartWorker
from tests.journeys.join_actors import BRANCHES, HangingBranchActor, ParallelActor
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [
    pytest.mark.journey,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("pool", ["prefork", "threads"]),
]


def has_all(ledger: Path, effect: str, times: int = 1) -> bool:
    seen = effects(ledger)
    return all(sum(seen.get(f"{effect}:{name}", {}).values()) >= times for name in BRANCHES)


def open_gate(ledger: Path) -> None:
    Path(f"{ledger}.calls may end").touch()


def assert_done_once(handle: ParallelActor) -> None:
    assert handle.state.collected == [f"confirm:{name}" for name in BRANCHES]
    names = sorted(Effect.objects.values_list("name", flat=True))
    assert names == sorted(f"{step}:{name}" for step in ("reserve", "confirm") for name in BRANCHES)


def test_slow_calls_of_three_branches_are_under_way_at_the_same_time(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """One worker with one slot: each call ends only when all three have begun."""
    worker = start_worker(f"--pool={pool}", "--concurrency=1", broker=redis_url)
    actor = ParallelActor.create("one")

    eventually(lambda: has_all(ledger, "begin"), 60, "all calls have begun", worker.log)
    open_gate(ledger)
    eventually(lambda: actor.status == "completed", 60, "the join ends", worker.log)

    assert_done_once(actor)
    assert all(sum(keys.values()) == 1 for keys in effects(ledger).values())


def test_a_worker_is_killed_while_three_branches_are_under_way(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """Another one does what is not on record: the calls again, under their keys, and no row twice."""
    first = start_worker(f"--pool={pool}", "--concurrency=1", broker=redis_url)
    actor = ParallelActor.create("one")
    eventually(lambda: has_all(ledger, "begin"), 60, "all calls have begun", first.log)

    first.kill()
    second = start_worker(f"--pool={pool}", "--concurrency=1", broker=redis_url)
    eventually(lambda: has_all(ledger, "begin", 2), 60, "all calls have begun again", second.log)
    open_gate(ledger)
    eventually(lambda: actor.status == "completed", 60, "the join ends", second.log)

    assert_done_once(actor)
    seen = effects(ledger)
    for name in BRANCHES:
        assert len(seen[f"begin:{name}"]) == 1, "both attempts have one key"
        assert sum(seen[f"end:{name}"].values()) == 1
        assert actor.history()[f"all/{name}/reserve"].attempts == 1
        assert actor.history()[f"all/{name}/call"].attempts == 2


def test_a_step_of_a_branch_is_cut_off_at_its_time_out_while_another_goes_on(
    start_worker: StartWorker, ledger: Path, redis_url: str, pool: str
) -> None:
    """Nothing of it lands, and the failure is on record before the other branch ends."""
    worker = start_worker(f"--pool={pool}", "--concurrency=1", broker=redis_url)
    actor = HangingBranchActor.create("one")

    eventually(lambda: actor.status in ("completed", "failed"), 90, "the join ends", worker.log)

    assert "hangs: StepTimeoutError: step 'hang' ran longer than 1 s" in actor.output
    assert list(Effect.objects.values_list("name", flat=True)) == ["other"]
