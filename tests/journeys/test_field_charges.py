"""What was reported of other engines, tried on this one: charged twice, made twice."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from rest_framework.test import APIClient

from tests.journeys.conftest import StartWorker
from tests.journeys.field_actors import CarelessProviderActor, OnceActor, SlowProviderActor
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

QUICK = {"LEASE_SECONDS": 1.0, "SWEEP_SECONDS": 0.2}


def test_a_charge_that_comes_after_its_time_out_is_asked_for_again_under_its_key(
    start_worker: StartWorker, ledger: Path
) -> None:
    """A provider that knows keys charges once, though the first attempt never saw its answer."""
    worker = start_worker("--concurrency=1", **QUICK)
    actor = SlowProviderActor.create("main")

    eventually(lambda: actor.status == "completed", 30, "the late charge is found", worker.log)

    seen = effects(ledger)
    assert seen["ask"].total() == 2
    assert seen["charge"].total() == 1
    assert set(seen["ask"]) == set(seen["charge"]), "one key"


def test_a_charge_that_may_happen_once_is_left_to_a_person_when_its_worker_dies(
    start_worker: StartWorker, ledger: Path
) -> None:
    """Where the provider knows no keys: the run ends as interrupted, and nothing charges again."""
    worker = start_worker("--concurrency=1", **QUICK)
    actor = CarelessProviderActor.create(("charged", "itself"))

    eventually(lambda: actor.status == "failed", 30, "it is left to a person", worker.log)

    assert actor.error.name == "StepInterruptedError"
    time.sleep(QUICK["LEASE_SECONDS"] + 2 * QUICK["SWEEP_SECONDS"])
    assert actor.status == "failed"
    assert effects(ledger)["charge"].total() == 1


def test_twenty_requests_at_once_make_one_actor_and_one_run(start_worker: StartWorker, ledger: Path) -> None:
    """All get the same one, inside transactions of their own that stay usable; one of the inputs made it."""
    # Given twenty clients, each with an input and a transaction of its own
    user = User.objects.create_superuser("root")
    url = f"/api/actors/{OnceActor.definition.type_name}/order~1/"
    gate = threading.Barrier(20)
    answers = {}

    def put(number: int) -> None:
        try:
            client = APIClient()
            client.force_authenticate(user)
            gate.wait()
            with transaction.atomic():
                response = client.put(url, {"input": number}, format="json")
                Effect.objects.create(name=f"after-{number}")
            answers[number] = response.status_code, response.json()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=put, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # Then one has made it, with its input
    assert sorted(status for status, _ in answers.values()) == [200] * 19 + [201]
    assert len({body["id"] for _, body in answers.values()}) == 1
    [winner] = [number for number, (_, body) in answers.items() if body["created"]]
    assert Effect.objects.count() == 20

    # And it runs once
    worker = start_worker("--concurrency=2", **QUICK)
    actor = OnceActor.get(("order", "1"))
    eventually(lambda: actor.status == "completed", 30, "it runs", worker.log)
    assert actor.state.made_by == winner
    assert effects(ledger)["begin"].total() == 1
