"""A ticking actor, people who may and may not see it, and a WebSocket client without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import pytest
from asgiref.sync import SyncToAsync
from asgiref.testing import ApplicationCommunicator
from channels.auth import AuthMiddlewareStack
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client

from django_rivet import Actor, Event, action
from django_rivet.actors.key import key_to_url
from django_rivet.routing import websocket_urlpatterns
from django_rivet.runtime import publisher
from django_rivet.testing import isolated_actors
from tests.live.redis_layers import LAYERS, Door, close, layer_at

PATIENCE = 30.0
"""Seconds until a frame that does not come has failed its test."""


class ClosedByServer(Exception):  # noqa: N818 - it is what happened, and not wrong
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Listener:
    """The client's end of one connection. (That of channels.testing needs daphne.)"""

    def __init__(
        self, path: str, cookie: str | None = None, *, routes: Any = websocket_urlpatterns, **scope: Any
    ) -> None:
        headers = [(b"host", b"testserver")]
        if cookie is not None:
            headers.append((b"cookie", cookie.encode()))
        scope = {"type": "websocket", "path": unquote(path), "query_string": b"", "headers": headers, **scope}
        self.connection = ApplicationCommunicator(AuthMiddlewareStack(URLRouter(routes)), scope)

    async def connect(self) -> dict[str, Any]:
        """The server's answer."""
        await self.connection.send_input({"type": "websocket.connect"})
        answer: dict[str, Any] = await self.connection.receive_output(PATIENCE)
        return answer

    async def leave(self) -> None:
        if not self.connection.future.done():
            await self.connection.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.connection.wait(PATIENCE)

    async def say(self, **frame: Any) -> None:
        await self.say_text(json.dumps(frame))

    async def say_text(self, text: str) -> None:
        await self.connection.send_input({"type": "websocket.receive", "text": text})

    async def say_bytes(self, content: bytes) -> None:
        await self.connection.send_input({"type": "websocket.receive", "bytes": content})

    async def hear(self, count: int | None = None) -> Any:
        """The next frame, or a list of the next ``count``."""
        if count is not None:
            return [await self.hear() for _ in range(count)]
        output = await self.connection.receive_output(PATIENCE)
        if output["type"] == "websocket.close":
            raise ClosedByServer(output["code"])
        return json.loads(output["text"])

    async def settle(self) -> None:
        """Frames are dealt with in order: when this one is answered, so are those before it."""
        await self.say(type="settle")
        answer = await self.hear()
        assert answer["code"] == "unknown_frame", answer

    async def hears_nothing(self) -> bool:
        """As far as three looks into the database can tell."""
        return bool(await self.connection.receive_nothing(timeout=0.35))


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    """Async code asks the database from a thread that outlives the test: the last test's would keep its database."""
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(60)


@pytest.fixture
def ticker() -> Iterator[Any]:
    with isolated_actors():

        class Ticker(Actor):
            ticked = Event(int)
            noted = Event(dict)
            blinked = Event(int, stored=False)

            @action
            def tick(self, *numbers: int) -> None:
                for number in numbers:
                    self.ticked.broadcast(number)

            @action
            def note(self, note: dict[str, Any]) -> None:
                self.noted.broadcast(note)

            @action
            def blink(self, number: int) -> None:
                self.blinked.broadcast(number)

            @action
            def fail(self, number: int) -> None:
                self.ticked.broadcast(number)
                raise ValueError("the turn is undone")

        yield Ticker


@pytest.fixture
def operator(transactional_db: None) -> User:
    """A member of the staff who may see actors."""
    user = User.objects.create_user("operator", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_actor"))
    return user


@pytest.fixture
def cookie(operator: User) -> str:
    """The operator's, from a log-in."""
    return cookie_of(operator)


@pytest.fixture
def fresh_sender() -> Iterator[None]:
    """A publisher that has told nobody yet, and leaves no connection behind."""
    silence(publisher._sender)
    publisher._begin_anew()
    yield
    silence(publisher._sender)
    layer: Any = get_channel_layer()
    if publisher._sender._thread is not None and publisher.leads_elsewhere(layer):
        asyncio.run_coroutine_threadsafe(close(layer), publisher._sender._loop).result(10)


@pytest.fixture(params=LAYERS, ids=["pubsub", "core"])
def redis_layer(request, redis_url, settings, fresh_sender):
    settings.CHANNEL_LAYERS = layer_at(redis_url, request.param)
    return redis_url


@pytest.fixture
def door(redis_url) -> Iterator[Door]:
    door = Door(redis_url)
    yield door
    door.shut()


@pytest.fixture(params=LAYERS, ids=["pubsub", "core"])
def guarded_layer(request, settings, door, fresh_sender, monkeypatch):
    monkeypatch.setattr(publisher, "SEND_SECONDS", 0.2)
    settings.CHANNEL_LAYERS = layer_at(door.url, request.param)
    return door


# What tests call ---------------------------------------------------------------------------------


def silence(sender: Any) -> None:
    """What it has not told by now would go to the next test's channel layer, over a connection of its own."""
    with sender._lock:
        sender._waiting.clear()
    assert sender.idle.wait(10)


def cookie_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())


def path_of(actor_class: Any, key: Any = "main") -> str:
    return f"/ws/rivet/{actor_class.definition.type_name}/{key_to_url(key if isinstance(key, str) else '/'.join(key))}/"


@asynccontextmanager
async def listening(path: str, cookie: str | None = None, **options: Any) -> AsyncIterator[Listener]:
    """A connection that was let in."""
    client = Listener(path, cookie, **options)
    answer = await client.connect()
    assert answer["type"] == "websocket.accept", answer
    try:
        yield client
    finally:
        await client.leave()


async def refusal(path: str, cookie: str | None = None, **options: Any) -> int | None:
    """The code that a connection is refused with; None where it is let in."""
    client = Listener(path, cookie, **options)
    answer = await client.connect()
    await client.leave()
    return answer["code"] if answer["type"] == "websocket.close" else None
