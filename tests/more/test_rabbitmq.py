"""RabbitMQ as broker: nothing depends on which one it is."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from django_rivet.runtime import bell
from tests.journeys import conftest as journeys
from tests.journeys import outages
from tests.journeys.actors import OrderActor, StockActor
from tests.journeys.conftest import StartWorker
from tests.journeys.models import Effect
from tests.journeys.outages import SETTINGS, Outage, StartWeb
from tests.journeys.outside import effects
from tests.journeys.web import ANSWERS_IN
from tests.journeys.workers import eventually
from tests.more.rabbitmq import RabbitServer

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

ledger, start_worker, start_web = journeys.ledger, journeys.start_worker, outages.start_web


@pytest.fixture
def rabbit(tmp_path: Path, child_environment: dict[str, str]) -> Iterator[RabbitServer]:
    """Web processes and workers to come have it for their broker."""
    home = tmp_path / "rabbitmq"
    home.mkdir()
    server = RabbitServer(home)
    try:
        server.start()
        child_environment["DJANGO_SETTINGS_MODULE"] = "tests.more.rabbit_settings"
        child_environment["RIVET_TEST_RABBITMQ_URL"] = server.url
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("how", ["killed", "memory alarm"])
def test_work_is_stored_while_rabbitmq_is_away(
    how: str, rabbit: RabbitServer, start_web: StartWeb, start_worker: StartWorker, ledger: Path
) -> None:
    """Also while it reads nothing from whoever publishes: no request and no step waits for it or fails over it."""
    outage = {
        "killed": Outage(rabbit.kill, rabbit.start),
        "memory alarm": Outage(rabbit.raise_memory_alarm, rabbit.lift_memory_alarm, is_refused=False),
    }[how]
    # A hint that lies unread in a buffer counts as sent: on a slow machine the step must not outlast its slice.
    worker = start_worker("--concurrency=2", **SETTINGS, SLICE_SECONDS=300)

    outages.live_through(outage, start_web(""), worker, ledger)


def test_no_hint_waits_long_for_a_rabbitmq_that_does_not_read(rabbit: RabbitServer) -> None:
    """Under a memory alarm what is published fills the buffers of the network; then nobody stands still with them."""
    app = Celery("of-a-test", broker=rabbit.url, set_as_current=False)
    actor_id = uuid.uuid4()
    assert bell.send(app, actor_id, "unknown.Type")
    rabbit.raise_memory_alarm()
    longest, began = 0.0, time.monotonic()

    def is_taken() -> bool:
        nonlocal longest
        sent_at = time.monotonic()
        taken = bell.send(app, actor_id, "unknown.Type")
        longest = max(longest, time.monotonic() - sent_at)
        return taken

    while is_taken():
        assert time.monotonic() - began < 300, "a buffer that never fills shows nothing"

    assert longest < ANSWERS_IN
    rabbit.lift_memory_alarm()
    assert bell.send(app, actor_id, "unknown.Type")
    assert bell.waiting_hints(app, None)
    bell._line.drop()


def test_sagas_end_well_over_kills_of_workers_and_of_rabbitmq(
    rabbit: RabbitServer, start_worker: StartWorker, ledger: Path
) -> None:
    """Every order ends confirmed once or compensated once, whoever of both dies in the middle of it."""
    # Given two workers, and orders of which a third cannot be shipped
    workers = [start_worker("--concurrency=1") for _ in range(2)]
    actors = [OrderActor.create(f"actor-{number}") for number in range(3)]

    def send(part: int) -> None:
        for actor in actors:
            for number in range(6):
                actor.send("orders", {"id": f"{actor.key}-{part}-{number}", "fails": number % 3 == 2})

    def is_at_work(part: int) -> bool:
        return any(f"-{part}-" in effect for effect in effects(ledger))

    # When a worker is killed, and then the broker
    send(0)
    eventually(lambda: is_at_work(0), 60, "somebody is at work", workers[0].log)
    workers[0].kill()
    workers[0] = start_worker("--concurrency=1")
    send(1)
    eventually(lambda: is_at_work(1), 60, "somebody is at work again", workers[0].log)
    rabbit.kill()
    send(2)
    rabbit.start()

    # Then all orders end, and all effects come once
    def ended() -> int:
        return sum(len(actor.state.confirmed) + len(actor.state.rejected) for actor in actors)

    eventually(lambda: ended() == 3 * 3 * 6, 120, "all orders end", workers[1].log)
    confirmed = sorted(order for actor in actors for order in actor.state.confirmed)
    rejected = sorted(order for actor in actors for order in actor.state.rejected)
    assert (len(confirmed), len(rejected)) == (36, 18)
    assert sorted(StockActor.get("main").state.reserved) == confirmed
    wanted = [f"{did}:{order}" for did in ("reserve", "confirm") for order in confirmed]
    wanted += [f"{did}:{order}" for did in ("reserve", "release") for order in rejected]
    assert Counter(Effect.objects.values_list("name", flat=True)) == Counter(wanted)
    assert {effect for effect, keys in effects(ledger).items() if len(keys) != 1} == set(), "one key for all attempts"
