"""A client that does not read holds up nobody, and no memory."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from channels.auth import AuthMiddlewareStack
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.db import transaction

from django_rivet.live import feed, lookout, stored_events
from django_rivet.live.lookout import MAX_PASSING
from django_rivet.live.stored_events import BATCH
from django_rivet.routing import websocket_urlpatterns
from django_rivet.runtime.publisher import publish
from tests.live.conftest import listening, path_of

pytestmark = pytest.mark.django_db(transaction=True)


class SlowClient:
    """Takes a frame only when it reads one, like a socket whose buffers are full."""

    def __init__(self, path, cookie):
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"testserver"), (b"cookie", cookie.encode())],
        }
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self.sent: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)
        application: Any = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
        self.task = asyncio.create_task(application(scope, self.said.get, self.sent.put))

    async def say(self, **frame):
        await self.said.put({"type": "websocket.receive", "text": json.dumps(frame)})

    async def read(self):
        async with asyncio.timeout(5):
            return json.loads((await self.sent.get())["text"])

    async def leave(self):
        await self.said.put({"type": "websocket.disconnect", "code": 1000})
        await self.task


async def connected(path, cookie):
    client = SlowClient(path, cookie)
    await client.said.put({"type": "websocket.connect"})
    assert (await client.sent.get())["type"] == "websocket.accept"
    assert (await client.read())["type"] == "init"
    return client


async def test_a_client_that_does_not_read_holds_one_batch(ticker, cookie, monkeypatch):
    """The rest waits in the database, and comes in order when the client reads again."""
    reads = []
    read_after = stored_events.read_after

    def counted(*args):
        reads.append(args)
        return read_after(*args)

    monkeypatch.setattr(feed, "read_after", counted)
    main = await ticker.acreate("main")
    client = await connected(path_of(ticker), cookie)
    await client.say(type="subscribe")
    await main.acall("tick", *range(3 * BATCH))
    async with listening(path_of(ticker), cookie) as attentive:
        await attentive.hear()
        await attentive.say(type="subscribe", since=0)
        await attentive.hear(3 * BATCH)
    assert [seq for _, seq in reads].count(BATCH) == 1, "only the attentive client went on to the second batch"

    assert [(await client.read())["payload"] for _ in range(3 * BATCH)] == list(range(3 * BATCH))
    await client.leave()


async def test_passing_events_do_not_pile_up(ticker, cookie):
    """A slow client gets the newest of those that are not stored."""
    main = await ticker.acreate("main")
    client = await connected(path_of(ticker), cookie)
    await client.say(type="subscribe", events=["blinked"])
    await client.say(type="settle")
    assert (await client.read())["code"] == "unknown_frame"

    @database_sync_to_async
    def blink(count):
        for number in range(count):
            with transaction.atomic():
                publish(uuid.UUID(main.id), [("blinked", str(number))], look=False)

    await blink(3 * MAX_PASSING)
    heard = [(await client.read())["payload"]]
    while heard[-1] != 3 * MAX_PASSING - 1:
        heard.append((await client.read())["payload"])
    assert len(heard) <= MAX_PASSING + 2
    assert heard == sorted(heard)
    await client.leave()


async def test_a_client_that_leaves_without_reading_is_forgotten(ticker, cookie):
    """The server tells of it while a frame still waits to be taken."""
    main = await ticker.acreate("main")
    client = await connected(path_of(ticker), cookie)
    await client.say(type="subscribe")
    await main.acall("tick", 1, 2, 3)
    await client.leave()
    assert client.task.done()
    assert not lookout.lookout()._watches


async def test_a_cancelled_connection_is_forgotten(ticker, cookie):
    """A server that shuts down cancels its connections."""
    await ticker.acreate("main")
    client = await connected(path_of(ticker), cookie)
    client.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client.task
    assert not lookout.lookout()._watches


async def test_many_clients_look_together(ticker, cookie, monkeypatch):
    """Looking for news costs one query for all connections of the process."""
    looks = []
    last_seqs = stored_events.last_seqs

    def counted(ids):
        looks.append(len(ids))
        return last_seqs(ids)

    main = await ticker.acreate("main")
    other = await ticker.acreate("other")
    async with (
        listening(path_of(ticker), cookie) as a,
        listening(path_of(ticker), cookie) as b,
        listening(path_of(ticker, "other"), cookie) as c,
    ):
        monkeypatch.setattr(lookout, "last_seqs", counted)
        for client in (a, b, c):
            await client.hear()
            await client.say(type="subscribe")
        await main.acall("tick", 1)
        await other.acall("tick", 2)
        assert [(await client.hear())["payload"] for client in (a, b, c)] == [1, 1, 2]
        assert await c.hears_nothing()
    assert set(looks) == {2}
    assert len(looks) <= 8, "ten a second at most"


async def test_a_database_that_fails_a_look_is_asked_again(ticker, cookie, monkeypatch, caplog):
    """Nobody watches over the lookout: it must not end."""
    monkeypatch.setattr(lookout, "HEARING_LOOK_SECONDS", 0.05)
    last_seqs = stored_events.last_seqs
    failures = iter([RuntimeError("the database is away")] * 2)

    def failing(ids):
        for error in failures:
            raise error
        return last_seqs(ids)

    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        monkeypatch.setattr(lookout, "last_seqs", failing)
        # Only a look can find it: nothing tells of this event.
        monkeypatch.setattr("django_rivet.runtime.publisher._tell", lambda messages: None)
        await client.hear()
        await client.say(type="subscribe")
        await client.settle()
        await main.acall("tick", 1)
        assert (await client.hear())["seq"] == 1
    assert caplog.text.count("the database is away") >= 2
