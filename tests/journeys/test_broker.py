"""A broker that is killed, frozen, silent, slow or forgetful: work is stored, and done once when it is back."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_rivet.models import Message
from tests.journeys import outages
from tests.journeys.brokers import OwnRedis, Passage
from tests.journeys.conftest import StartWorker
from tests.journeys.courier_actors import CourierActor
from tests.journeys.outages import COURIER, SETTINGS, Outage, StartWeb, all_is_done_once, listening, next_arrival
from tests.journeys.web import ANSWERS_IN
from tests.journeys.workers import eventually

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

start_web = outages.start_web


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def passage(own_redis: OwnRedis) -> Iterator[Passage]:
    passage = Passage(own_redis.port)
    yield passage
    passage.close()


@pytest.mark.parametrize("how", ["killed", "frozen", "silent"])
def test_work_is_stored_while_redis_is_away(
    how: str, own_redis: OwnRedis, passage: Passage, start_web: StartWeb, start_worker: StartWorker, ledger: Path
) -> None:
    """No request and no step waits for it or fails over it, and the rest is done when it is back."""
    outage = {
        "killed": Outage(own_redis.kill, own_redis.start),
        "frozen": Outage(own_redis.freeze, own_redis.thaw),
        "silent": Outage(passage.fall_silent, passage.speak_again),
    }[how]
    url = passage.url if how == "silent" else own_redis.url
    worker = start_worker("--concurrency=2", broker=url, **SETTINGS)

    outages.live_through(outage, start_web(url), worker, ledger)


def test_a_paused_redis_keeps_no_request_waiting(
    own_redis: OwnRedis, start_web: StartWeb, start_worker: StartWorker, ledger: Path
) -> None:
    """With ``CLIENT PAUSE`` it takes what it is told and does nothing of it; what is stored is done afterwards."""
    web, worker = start_web(own_redis.url), start_worker("--concurrency=2", broker=own_redis.url, **SETTINGS)
    eventually(lambda: worker.is_ready, 60, "the worker is ready", worker.log)
    web.wait_until_ready()

    # When it pauses for longer than anybody waits for an answer here
    paused_at = time.monotonic()
    own_redis.pause(ANSWERS_IN + 2)

    # Then whoever creates and sends gets one, which is true, and all of them together take no longer
    sent = ["0", "1"]
    for key in "ab":
        assert web.ask("PUT", f"{COURIER}/{key}/", {})[0] == 201
        for parcel in sent:
            assert web.ask("POST", f"{COURIER}/{key}/queues/parcels/", {"body": parcel})[0] == 202
    assert time.monotonic() - paused_at < ANSWERS_IN
    assert Message.objects.filter(actor__key__in=["a", "b"]).count() == 4

    # And all is done when the pause is over
    all_is_done_once(worker, ledger, a=sent, b=sent)


def test_a_redis_that_forgets_again_and_again_loses_no_work(
    own_redis: OwnRedis, start_web: StartWeb, start_worker: StartWorker, ledger: Path
) -> None:
    """Flushed at random moments while work comes in from outside and from inside: all is done, in order, once."""
    web, worker = start_web(own_redis.url), start_worker("--concurrency=2", broker=own_redis.url, **SETTINGS)
    eventually(lambda: worker.is_ready, 60, "the worker is ready", worker.log)
    web.wait_until_ready()
    is_over = threading.Event()

    def flush_now_and_then() -> None:
        while not is_over.wait(random.random() * 0.2):
            own_redis.forget_everything()

    flushing = threading.Thread(target=flush_now_and_then)
    flushing.start()
    try:
        for number in range(8):
            for key in "abc":
                web.ask("PUT", f"{COURIER}/{key}/", {})
                web.ask("POST", f"{COURIER}/{key}/queues/parcels/", {"body": str(number)})
    finally:
        is_over.set()
        flushing.join(10)

    sent = [str(number) for number in range(8)]
    all_is_done_once(worker, ledger, a=sent, b=sent, c=sent)


def test_a_slow_redis_slows_nobody_s_answer(
    passage: Passage, start_web: StartWeb, start_worker: StartWorker, ledger: Path
) -> None:
    """With 0.3 s for each piece of data hints and events are late; requests and steps are not."""
    web, worker = start_web(passage.url), start_worker("--concurrency=2", broker=passage.url, **SETTINGS)
    CourierActor.create("main")
    eventually(lambda: worker.is_ready, 60, "the worker is ready", worker.log)
    web.wait_until_ready()
    with listening(web, "main") as client:
        passage.delay = 0.3

        sent = [str(number) for number in range(5)]
        for parcel in sent:
            assert web.ask("POST", f"{COURIER}/main/queues/parcels/", {"body": parcel})[0] == 202

        all_is_done_once(worker, ledger, main=sent)
        assert [next_arrival(client) for _ in sent] == sent


def test_a_worker_that_is_told_to_stop_does_not_wait_for_redis(own_redis: OwnRedis, start_worker: StartWorker) -> None:
    """Celery's main loop sends nothing that could keep it: a deploy goes on while Redis hangs."""
    worker = start_worker("--concurrency=1", broker=own_redis.url, **SETTINGS)
    eventually(lambda: worker.is_ready, 60, "the worker is ready", worker.log)
    own_redis.freeze()

    # Given longer than Celery's pause between two heartbeat events
    time.sleep(3)
    worker.process.terminate()

    assert worker.process.wait(60) == 0
