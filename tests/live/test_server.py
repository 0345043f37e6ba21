"""Worker, database, server and client: real ones, with Redis and without."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.journeys.workers import WorkerProcess, eventually
from tests.live.conftest import path_of
from tests.live.redis_layers import connections_of
from tests.live.station.actors import Station

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.journey]

Connect = Callable[..., ClientConnection]


@pytest.fixture(params=["no broker", "redis"])
def broker(request: pytest.FixtureRequest, settings: Any) -> str:
    """A URL, or nothing: then nobody tells the server of anything, and it looks for itself."""
    if request.param == "no broker":
        return ""
    url: str = request.getfixturevalue("redis_url")
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [url]}}
    }
    return url


@pytest.fixture
def server(broker: str) -> Iterator[str]:
    """The example's ASGI application behind uvicorn; the address to connect to."""
    with serving() as address:
        yield address


@contextmanager
def serving() -> Iterator[str]:
    from example_project.asgi import application

    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    config = uvicorn.Config(application, ws="websockets-sansio", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"ws://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
    assert not thread.is_alive()


@pytest.fixture
def connected(server: str, cookie: str) -> Iterator[Connect]:
    with ExitStack() as opened:

        def open_one(key: str = "main", **headers: str) -> ClientConnection:
            return opened.enter_context(
                connect(server + path_of(Station, key), additional_headers=sent(cookie) | headers)
            )

        yield open_one


def sent(cookie: str) -> dict[str, str]:
    return {"Cookie": cookie, "Origin": "http://127.0.0.1"}


@pytest.fixture
def worker(child_environment: dict[str, str], broker: str, tmp_path: Any) -> Iterator[WorkerProcess]:
    """One prefork child drives everything."""
    environment = {**child_environment, "DJANGO_SETTINGS_MODULE": "tests.live.station.settings", "REDIS_URL": broker}
    worker = WorkerProcess(environment, tmp_path / "worker.log", "--concurrency=1")
    eventually(lambda: worker.is_ready, 30, "the worker is ready", worker.log)
    yield worker
    worker.stop()


def hear(client: ClientConnection, count: int) -> list[dict[str, Any]]:
    return [json.loads(client.recv(timeout=20)) for _ in range(count)]


def test_events_of_a_worker_reach_a_browser(worker, connected, broker):
    """Two hundred broadcasts of one child, in order, once each; Redis has no more connections than before them."""
    station = Station.create("main")
    client = connected()
    assert hear(client, 1) == [{"type": "init", "seq": 0}]
    client.send(json.dumps({"type": "subscribe"}))

    station.send("programmes", 10)
    assert [frame["payload"] for frame in hear(client, 10)] == list(range(10))
    before = connections_of(broker) if broker else set()
    station.send("programmes", 200)
    frames = hear(client, 200)
    assert [frame["payload"] for frame in frames] == list(range(200))
    assert [frame["seq"] for frame in frames] == list(range(11, 211))
    assert not broker or connections_of(broker) <= before
    log = worker.log.read_text()
    assert "Traceback" not in log
    assert "loop" not in log.lower()

    client.close()
    station.send("programmes", 1)
    again = connected()
    again.send(json.dumps({"type": "subscribe", "since": 208}))
    assert [frame["seq"] for frame in hear(again, 4)[1:]] == [209, 210, 211]


def code_of(closed: ConnectionClosed) -> int | None:
    return None if closed.rcvd is None else closed.rcvd.code


def test_who_is_not_let_in_gets_a_status(server, connected):
    """The handshake is answered with what it means, and nothing is accepted."""
    Station.create("main")
    for headers, status in (({"Cookie": ""}, 401), ({"Origin": "https://evil.example"}, 403)):
        with pytest.raises(InvalidStatus) as refused:
            connected(**headers)
        assert refused.value.response.status_code == status
    with pytest.raises(InvalidStatus) as refused:
        connected(key="other")
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body) == {"code": "not_found", "message": "there is no such actor"}


def test_bad_frames_do_not_hurt_the_server(server, connected):
    """The connection says what is wrong, or ends with a code; others go on."""
    Station.create("main")
    steady, rude = connected(), connected()
    for client in (steady, rude):
        hear(client, 1)
    rude.send("no JSON")
    assert hear(rude, 1)[0]["code"] == "invalid_json"
    rude.send("x" * 2 * 1024 * 1024)
    with pytest.raises(ConnectionClosed) as closed:
        hear(rude, 1)
    assert code_of(closed.value) == 1009
    steady.send(json.dumps({"type": "subscribe", "events": ["nothing"]}))
    assert hear(steady, 1)[0]["code"] == "unknown_event"


def test_a_passing_event_reaches_a_browser(server, connected):
    """Also where it is broadcast by the server's own process."""
    station = Station.create("main")
    client = connected()
    hear(client, 1)
    client.send(json.dumps({"type": "subscribe", "events": ["flashed"]}))
    client.send(json.dumps({"type": "subscribe", "events": ["nothing"]}))
    assert hear(client, 1)[0]["code"] == "unknown_event"
    station.flash(7)
    assert hear(client, 1) == [{"type": "event", "name": "flashed", "payload": 7}]


def test_a_browser_may_act(server, connected):
    """An action and a message over the socket, answered by their ids; what the action broadcasts comes as well."""
    station = Station.create("main")
    client = connected()
    hear(client, 1)
    client.send(json.dumps({"type": "subscribe", "id": "s"}))
    assert hear(client, 1) == [{"type": "result", "id": "s", "output": None}]
    client.send(json.dumps({"type": "action", "id": "a", "action": "flash", "args": [7]}))
    heard = hear(client, 2)
    assert {"type": "result", "id": "a", "output": None} in heard
    assert {"type": "event", "name": "flashed", "payload": 7} in heard
    client.send(json.dumps({"type": "send", "id": "m", "queue": "programmes", "body": 3}))
    [receipt] = hear(client, 1)
    assert (receipt["id"], receipt["output"]["status"]) == ("m", "queued")
    assert station.status == "pending"


def test_a_server_that_stops_lets_its_clients_go(broker, cookie):
    """They are told to come back, and the server does not wait for them."""
    Station.create("main")
    with ExitStack() as opened:
        with serving() as address:
            client = opened.enter_context(connect(address + path_of(Station), additional_headers=sent(cookie)))
            hear(client, 1)
        with pytest.raises(ConnectionClosed) as closed:
            hear(client, 1)
    assert code_of(closed.value) == 1012
