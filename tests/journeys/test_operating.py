"""What operators do to an actor that a real worker is in the middle of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from django_rivet import ActorNotFoundError
from tests.journeys import outside
from tests.journeys.conftest import StartWorker
from tests.journeys.operated_actors import GatedActor
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]


def stands_at_the_gate(key: str, ledger: Path, worker: Any) -> Any:
    handle = GatedActor.create(key)
    eventually(lambda: f"stands:{key}" in effects(ledger), 60, "it stands at the gate", worker.log)
    return handle


def await_status(handle: Any, status: str, worker: Any) -> None:
    eventually(lambda: handle.status == status, 60, f"{handle.key} is {status}", worker.log)


def test_a_worker_pauses_an_actor_behind_the_body_that_runs_and_goes_on_with_it(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """The call does not wait; each body runs once; a paused one is rolled back without a resume."""
    worker = start_worker("--concurrency=2", broker=redis_url)
    resumed, cancelled = (stands_at_the_gate(key, ledger, worker) for key in ("resumed", "cancelled"))

    # When both are paused in the middle of a body, and those end
    for handle in (resumed, cancelled):
        assert handle.pause()
        assert handle.status == "running"
        outside.note(f"go:{handle.key}", "once")
        await_status(handle, "paused", worker)
    assert not {"after:resumed", "after:cancelled", "undone:cancelled"} & set(effects(ledger))

    # Then each does what it is told
    assert resumed.resume()
    assert cancelled.cancel(rollback=True)
    await_status(resumed, "completed", worker)
    await_status(cancelled, "cancelled", worker)
    found = effects(ledger)
    assert [found[f"{what}:resumed"]["once"] for what in ("stands", "after")] == [1, 1]
    assert [found[f"{what}:cancelled"]["once"] for what in ("stands", "undone")] == [1, 1]
    assert not {"after:cancelled", "undone:resumed"} & set(found)


def test_a_worker_whose_actor_is_destroyed_has_nothing_to_complain_of(
    start_worker: StartWorker, ledger: Path, redis_url: str
) -> None:
    """It ends the body, finds that there is no actor any more, and goes on with others."""
    worker = start_worker("--concurrency=1", broker=redis_url)
    handle = stands_at_the_gate("main", ledger, worker)

    # When it is destroyed in the middle of a body
    handle.destroy(force=True)
    with pytest.raises(ActorNotFoundError):
        _ = handle.status
    outside.note("go:main", "once")

    # Then the worker is free for the next one, and nothing of the old one happens
    outside.note("go:next", "once")
    other = GatedActor.create("next")
    await_status(other, "completed", worker)
    assert not {"after:main", "undone:main"} & set(effects(ledger))
    log = worker.log.read_text(errors="replace")
    assert "Traceback" not in log
    assert "ERROR" not in log
