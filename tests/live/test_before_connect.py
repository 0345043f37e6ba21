"""The hook ``on_before_connect``: an actor's own word about who may connect."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import path

from django_rivet import Actor, ActorNotFoundError, Connection, Event, UserError, action
from django_rivet.live.consumer import ActorConsumer
from django_rivet.testing import isolated_actors
from tests.live.conftest import Listener, listening, path_of, refusal

pytestmark = pytest.mark.django_db(transaction=True)

_impatient: Any = ActorConsumer.as_asgi(call_seconds=0.3)
IMPATIENT = [path("ws/rivet/<str:type>/<str:key>/", _impatient)]
ANSWERS_WITH_STATUS: dict[str, Any] = {"websocket.http.response": {}}


@pytest.fixture
def room() -> Iterator[Callable[..., Any]]:
    """``room(hook)``: an actor class with that hook."""
    with isolated_actors():

        def make(hook: Any) -> Any:
            class Room(Actor):
                class State:
                    seats: list[str] = ["anna"]

                said = Event(str)
                on_before_connect = hook

                @action
                def say(self, text: str) -> None:
                    self.said.broadcast(text)

            return Room

        yield make


async def rejection(path: str, cookie: str, **options: Any) -> tuple[int, Any]:
    """Status and body of a refused handshake."""
    client = Listener(path, cookie, extensions=ANSWERS_WITH_STATUS, **options)
    start = await client.connect()
    body = await client.connection.receive_output()
    await client.leave()
    return start["status"], json.loads(body["body"])


async def test_it_sees_who_connects_and_how(room: Any, operator: Any, cookie: str) -> None:
    """The user, the parameters of the address and the headers, as plain data, and the actor's state."""
    seen: list[Any] = []

    def hook(self: Any, connection: Connection) -> None:
        seen.append((connection, self.key, self.state.seats))

    main = await room(hook).acreate("main")
    async with listening(path_of(room_of(main)), cookie, query_string=b"seat=a&seat=b&lang=de") as client:
        assert (await client.hear())["type"] == "init"

    [(connection, key, seats)] = seen
    assert (key, seats) == ("main", ["anna"])
    assert connection.user == operator
    assert connection.query == {"seat": "b", "lang": "de"}
    assert connection.headers == {"host": "testserver", "cookie": cookie}


def room_of(handle: Any) -> Any:
    return handle._class


async def test_it_may_be_async(room: Any, cookie: str) -> None:
    """As every hook."""

    async def hook(self: Any, connection: Connection) -> None:
        if self.state.seats != [connection.query["seat"]]:
            raise UserError("That seat is taken.")

    main = await room(hook).acreate("main")
    assert await refusal(path_of(room_of(main)), cookie, query_string=b"seat=anna") is None
    assert await refusal(path_of(room_of(main)), cookie, query_string=b"seat=bert") == 4400


async def test_it_may_refuse(room: Any, cookie: str) -> None:
    """With words, a code and a status of its own; nothing is accepted, and no event told."""

    def hook(self: Any, connection: Connection) -> None:
        raise UserError("All " + "ö" * 200, code="full", metadata={"seats": 1}, status=409)

    main = await room(hook).acreate("main")
    assert await refusal(path_of(room_of(main)), cookie) == 4409
    assert await rejection(path_of(room_of(main)), cookie) == (
        409,
        {"code": "full", "message": "All " + "ö" * 200, "metadata": {"seats": 1}},
    )


@pytest.mark.parametrize("error", [ValueError("a secret"), ActorNotFoundError("a secret"), KeyError("seat")])
async def test_an_error_of_it_lets_nobody_in(
    room: Any, cookie: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text is for the log only."""

    def hook(self: Any, connection: Connection) -> None:
        raise error

    main = await room(hook).acreate("main")
    status, content = await rejection(path_of(room_of(main)), cookie)
    assert (status, content["code"]) == (500, "internal_error")
    assert "secret" not in json.dumps(content)
    [record] = [each for each in caplog.records if each.name == "django_rivet.live.hook"]
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def assign(actor: Any) -> None:
    actor.state = {"seats": []}


def broadcast(actor: Any) -> None:
    actor.said.broadcast("hello")


@pytest.mark.parametrize("change", [assign, broadcast])
async def test_it_changes_nothing(room: Any, cookie: str, change: Callable[[Any], None]) -> None:
    """It sees the state without waiting for a turn, so it cannot write it, nor broadcast."""

    def hook(self: Any, connection: Connection) -> None:
        change(self)

    main = await room(hook).acreate("main")
    assert await refusal(path_of(room_of(main)), cookie) == 4500
    assert (await main.asnapshot()).state.seats == ["anna"]


async def test_it_is_asked_after_permission(room: Any) -> None:
    """Who may not see the actor does not reach it."""
    asked: list[Any] = []

    def hook(self: Any, connection: Connection) -> None:
        asked.append(connection)

    main = await room(hook).acreate("main")
    assert await refusal(path_of(room_of(main))) == 4401
    assert asked == []


async def test_one_that_hangs_is_given_up(room: Any, cookie: str) -> None:
    """The client is asked to try again; other connections have not waited for it."""
    opened = threading.Event()

    def hook(self: Any, connection: Connection) -> None:
        if connection.query.get("slow"):
            assert opened.wait(60)

    main = await room(hook).acreate("main")
    try:
        status, content = await rejection(path_of(room_of(main)), cookie, query_string=b"slow=1", routes=IMPATIENT)
        assert await refusal(path_of(room_of(main)), cookie) is None
    finally:
        opened.set()
    assert (status, content["code"]) == (503, "connect_timeout")


async def test_an_address_that_cannot_be_read_is_refused(room: Any, cookie: str) -> None:
    """Django takes no more parameters than DATA_UPLOAD_MAX_NUMBER_FIELDS."""
    main = await room(lambda self, connection: None).acreate("main")
    many = b"&".join(b"a=%d" % number for number in range(1001))
    assert await refusal(path_of(room_of(main)), cookie, query_string=many) == 4400
