"""A broker that is killed, frozen, silent, slow or forgetful: work is stored, and done once when it is back."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from websockets.sync.client import ClientConnection, connect

from tests.journeys.brokers import OwnRedis, Passage
from tests.journeys.conftest import StartWorker
from tests.journeys.courier_actors import HEAVY, CourierActor, let_go
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.web import WebProcess
from tests.journeys.workers import WorkerProcess, eventually
from tests.live.conftest import cookie_of, path_of

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

SETTINGS = {"LEASE_SECONDS": 20.0}
"""Nobody dies here: a lease that a slow machine cannot overrun."""

AFTERWARDS = 60.0
"""Celery tries to reach a broker that was away for seconds again every few seconds."""

COURIER = CourierActor.definition.type_name

StartWeb = Callable[[str], WebProcess]


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


@pytest.fixture
def start_web(child_environment: dict[str, str], tmp_path: Path) -> Iterator[StartWeb]:
    User.objects.create_superuser("boss", password="boss")
    started = []

    def start(broker: str) -> WebProcess:
        environment = {**child_environment, "REDIS_URL": broker}
        started.append(WebProcess(environment, tmp_path / f"web-{len(started)}.log", "boss"))
        return started[-1]

    yield start
    for web in started:
        web.kill()


@contextmanager
def listening(web: WebProcess, key: str) -> Iterator[ClientConnection]:
    """A browser that is subscribed to that courier's events."""
    headers = {"Cookie": cookie_of(User.objects.get()), "Origin": "http://127.0.0.1"}
    with connect(f"ws://127.0.0.1:{web.port}{path_of(CourierActor, key)}", additional_headers=headers) as client:
        assert json.loads(client.recv(timeout=30))["type"] == "init"
        client.send(json.dumps({"type": "subscribe"}))
        yield client


def next_arrival(client: ClientConnection) -> str:
    return json.loads(client.recv(timeout=60))["payload"]


def all_is_done_once(worker: WorkerProcess, ledger: Path, **parcels: list[str]) -> None:
    """In order, by bodies that ran once."""

    def is_done() -> bool:
        return all(CourierActor.get(key).state.handed_over == sent for key, sent in parcels.items())

    eventually(is_done, AFTERWARDS, "all parcels are handed over", worker.log)
    expected = sorted(f"{key}:{parcel}" for key, sent in parcels.items() for parcel in sent)
    assert sorted(Effect.objects.values_list("name", flat=True)) == expected
    carried = {effect.removeprefix("carry:"): keys.total() for effect, keys in effects(ledger).items()}
    assert {name: carried[name] for name in expected} == dict.fromkeys(expected, 1)
    assert worker.process.poll() is None, "the worker outlives its broker"


@pytest.mark.parametrize("outage", ["killed", "frozen", "silent"])
def test_work_is_stored_while_redis_is_away(
    outage: str, own_redis: OwnRedis, passage: Passage, start_web: StartWeb, start_worker: StartWorker, ledger: Path
) -> None:
    """Requests are answered, a running workflow goes on, its clients hear of it; the rest is done when Redis is back."""
    # Given a web process, a client that listens, and a worker in the middle of a step
    url = passage.url if outage == "silent" else own_redis.url
    web, worker = start_web(url), start_worker("--concurrency=2", broker=url, **SETTINGS)
    busy = CourierActor.create("busy")
    busy.send("parcels", HEAVY)
    eventually(lambda: f"lift:busy:{HEAVY}" in effects(ledger), 60, "the worker is at it", worker.log)
    web.wait_until_ready()
    with listening(web, "busy") as client:
        # When Redis goes away
        begin, end = {
            "killed": (own_redis.kill, own_redis.start),
            "frozen": (own_redis.freeze, own_redis.thaw),
            "silent": (passage.fall_silent, passage.speak_again),
        }[outage]
        begin()

        # Then whoever creates, sends and calls gets an answer, and it is true
        assert web.ask("PUT", f"{COURIER}/late/", {})[0] == 201
        for number in range(3):
            assert web.ask("POST", f"{COURIER}/late/queues/parcels/", {"body": str(number)})[0] == 202
        assert web.ask("POST", f"{COURIER}/late/actions/greet/", {"args": ["Ada"]}) == (200, {"output": "hello Ada"})
        assert (CourierActor.get("late").snapshot().state.greeted, waiting("late")) == (["Ada"], 3)

        # And the step ends, the workflow goes on, and its event reaches the client
        let_go(ledger)
        assert next_arrival(client) == HEAVY
        assert busy.state.handed_over == [HEAVY]

        eventually(lambda: "no hint for actor" in web.log.read_text(), 60, "the bell has given up", web.log)

        # When Redis is back, then the rest is done by itself, and events come as before
        end()
        all_is_done_once(worker, ledger, busy=[HEAVY], late=["0", "1", "2"])
        web.ask("POST", f"{COURIER}/busy/queues/parcels/", {"body": "light"})
        assert next_arrival(client) == "light"
        all_is_done_once(worker, ledger, busy=[HEAVY, "light"], late=["0", "1", "2"])


def waiting(key: str) -> int:
    from django_rivet.models import Message

    return Message.objects.filter(actor__key=key, status="queued").count()


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
