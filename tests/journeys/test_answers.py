"""Wait for answers and results that real workers give."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from tests.journeys.answering_actors import OracleActor
from tests.journeys.conftest import StartWorker
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

PATIENCE = 120


@pytest.mark.timeout(300)
def test_actor_11_a_worker_answers_who_waits(start_worker: StartWorker, ledger: Path) -> None:
    """One question after another, from plain and from async code, and at last the result of it all."""
    start_worker("--concurrency=2", SWEEP_SECONDS=0.2)
    clerk = OracleActor.create("main")

    first = clerk.send_and_wait("questions", "a", PATIENCE)
    second = async_to_sync(clerk.asend_and_wait)("questions", "b", PATIENCE)
    last = clerk.send_and_wait("questions", "go home", PATIENCE)

    assert [(each.status, each.response) for each in (first, second, last)] == [
        ("completed", "A"),
        ("completed", "B"),
        ("completed", "bye"),
    ]
    assert clerk.result(PATIENCE) == 2
    assert async_to_sync(clerk.aresult)(PATIENCE) == 2


@pytest.mark.timeout(300)
def test_queue_30_who_waits_is_answered_though_the_worker_is_killed(start_worker: StartWorker, ledger: Path) -> None:
    """The message is open when its worker dies; another one takes it over and answers it, once."""
    # Given somebody who waits for an answer, and a worker that thinks about it
    doomed = start_worker("--concurrency=1", SWEEP_SECONDS=0.2)
    clerk = OracleActor.create("main")
    with ThreadPoolExecutor(1) as others:

        def ask() -> tuple[str, str]:
            try:
                answer = clerk.send_and_wait("questions", "hard", PATIENCE)
            finally:
                connections.close_all()
            return answer.status, answer.response

        asked = others.submit(ask)
        eventually(lambda: "hard" in effects(ledger), 60, "the worker thinks about it", doomed.log)

        # When that is killed
        doomed.kill()
        assert not asked.done()
        heir = start_worker("--concurrency=1", SWEEP_SECONDS=0.2)

        # Then the next one answers
        eventually(asked.done, PATIENCE, "the question is answered", heir.log)
    assert asked.result() == ("completed", "HARD")
    assert list(effects(ledger)["hard"].values()) == [2]
