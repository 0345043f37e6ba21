"""The story of a broker that goes away and comes back, whichever broker and however it goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from websockets.sync.client import ClientConnection, connect

from django_rivet.models import Message
from tests.journeys.courier_actors import HEAVY, CourierActor
from tests.journeys.models import Effect
from tests.journeys.outside import effects, open_gate
from tests.journeys.web import WebProcess
from tests.journeys.workers import WorkerProcess, eventually
from tests.live.conftest import cookie_of, path_of

SETTINGS = {"LEASE_SECONDS": 20.0}
"""Nobody dies here: a lease that a slow machine cannot overrun."""

AFTERWARDS = 120.0
"""Celery tries to reach a broker that was away for a minute again every 20 seconds."""

COURIER = CourierActor.definition.type_name

StartWeb = Callable[[str], WebProcess]


@pytest.fixture
def start_web(child_environment: dict[str, str], tmp_path: Path) -> Iterator[StartWeb]:
    """Start a web process; all are gone when the test ends. To be given: a Redis URL, or nothing."""
    User.objects.create_superuser("boss", password="boss")
    started: list[WebProcess] = []

    def start(broker: str) -> WebProcess:
        environment = {**child_environment, "REDIS_URL": broker}
        started.append(WebProcess(environment, tmp_path / f"web-{len(started)}.log", "boss"))
        return started[-1]

    yield start
    for web in started:
        web.kill()


@dataclass(frozen=True)
class Outage:
    begin: Callable[[], None]
    end: Callable[[], None]
    is_refused: bool = True
    """Whether the broker takes no hints; one that does may not read them before the outage ends."""


def live_through(outage: Outage, web: WebProcess, worker: WorkerProcess, ledger: Path) -> None:
    """Requests are answered, what runs goes on, its clients hear of it, and the rest is done after the outage."""
    # Given a client that listens, and a worker in the middle of a step
    busy = CourierActor.create("busy")
    busy.send("parcels", HEAVY)
    eventually(lambda: f"lift:busy:{HEAVY}" in effects(ledger), 60, "the worker is at it", worker.log)
    web.wait_until_ready()
    with listening(web, "busy") as client:
        # When the broker goes away
        outage.begin()

        # Then whoever creates, sends and calls gets an answer, and it is true
        assert web.ask("PUT", f"{COURIER}/late/", {})[0] == 201
        for number in range(3):
            assert web.ask("POST", f"{COURIER}/late/queues/parcels/", {"body": str(number)})[0] == 202
        assert web.ask("POST", f"{COURIER}/late/actions/greet/", {"args": ["Ada"]}) == (200, {"output": "hello Ada"})
        assert CourierActor.get("late").state.greeted == ["Ada"]
        assert Message.objects.filter(actor__key="late").count() == 3

        # And the step ends, the workflow goes on, and its event reaches the client
        open_gate(ledger)
        assert next_arrival(client) == HEAVY
        assert busy.state.handed_over == [HEAVY]
        if outage.is_refused:
            eventually(lambda: "no hint for actor" in web.log.read_text(), 60, "the bell has given up", web.log)
            assert CourierActor.get("late").state.handed_over == []

        # When it is back, then the rest is done by itself, and events come as before
        outage.end()
        all_is_done_once(worker, ledger, busy=[HEAVY], late=["0", "1", "2"])
        web.ask("POST", f"{COURIER}/busy/queues/parcels/", {"body": "light"})
        assert next_arrival(client) == "light"
        all_is_done_once(worker, ledger, busy=[HEAVY, "light"], late=["0", "1", "2"])


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
