"""Clients of a server that has Redis, has lost it, or never had it."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from asgiref.sync import sync_to_async

from django_rivet.live import ear
from django_rivet.live import lookout as lookouts
from django_rivet.live.lookout import lookout
from django_rivet.runtime import publisher
from django_rivet.runtime.publisher import publish
from tests.live.conftest import listening, path_of

pytestmark = pytest.mark.django_db(transaction=True)


async def until(condition, seconds=5.0):
    """What happens in the background has no clock that a test could move."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)


def is_told_of_all():
    listener = lookout()._ear
    return listener is not None and listener.hears_all


@pytest.mark.parametrize("outage", ["hang", "shut"])
async def test_clients_are_let_in_and_served_without_redis(guarded_layer, ticker, cookie, outage):
    """Events come from the database; the channel layer would only have made them faster."""
    getattr(guarded_layer, outage)()
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await main.acall("tick", 1)
        assert (await client.hear())["seq"] == 1


async def test_redis_wakes_clients(redis_layer, ticker, cookie, monkeypatch):
    """An event comes at once, long before the next look; also a passing one, and once each."""
    monkeypatch.setattr(lookouts, "HEARING_LOOK_SECONDS", 60)
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client, listening(path_of(ticker), cookie) as other:
        for each in (client, other):
            await each.hear()
            await each.say(type="subscribe")
            await each.settle()
        await until(is_told_of_all)
        for number in range(3):
            await main.acall("tick", number)
        await sync_to_async(publish)(uuid.UUID(main.id), [("blinked", "7")], look=False)
        for each in (client, other):
            frames = await each.hear(4)
            assert [f["payload"] for f in frames if f["name"] == "ticked"] == [0, 1, 2]
            assert [f["payload"] for f in frames if f["name"] == "blinked"] == [7]
            assert await each.hears_nothing()


async def test_a_lost_message_is_late_and_not_lost(redis_layer, ticker, cookie, monkeypatch):
    """A slow look finds what nobody told of."""
    monkeypatch.setattr(lookouts, "HEARING_LOOK_SECONDS", 0.3)
    monkeypatch.setattr(publisher, "_tell", lambda messages: None)
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await client.settle()
        await main.acall("tick", 1)
        assert (await client.hear())["seq"] == 1


@pytest.mark.parametrize("outage", ["hang", "shut"])
async def test_when_redis_is_back_it_wakes_clients_again(guarded_layer, ticker, cookie, monkeypatch, caplog, outage):
    """Also those that came while it was away; the log has one line about it."""
    monkeypatch.setattr(lookouts, "HEARING_LOOK_SECONDS", 60)
    monkeypatch.setattr(ear, "LAYER_SECONDS", 0.2)
    monkeypatch.setattr(ear, "RETRY_SECONDS", 0.02)
    getattr(guarded_layer, outage)()
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await until(lambda: "cannot be heard" in caplog.text)
        assert not is_told_of_all()
        guarded_layer.lead_on()
        await until(is_told_of_all)
        await main.acall("tick", 1)
        await main.acall("tick", 2)
        assert [frame["seq"] for frame in await client.hear(2)] == [1, 2]
    assert caplog.text.count("cannot be heard") == 1


class ForgetfulLayer:
    """Loses its groups all the time, like a Redis that was restarted or a group that has expired."""

    def __init__(self):
        self.joined = 0
        self.left = 0

    async def new_channel(self):
        return "mine"

    async def receive(self, channel):
        await asyncio.Event().wait()

    async def group_add(self, group, channel):
        self.joined += 1

    async def group_discard(self, group, channel):
        self.left += 1


async def test_a_group_that_is_unwanted_when_it_would_be_joined_again_is_left(monkeypatch):
    """Else its messages would come for as long as the process lives."""
    monkeypatch.setattr(ear, "REJOIN_SECONDS", 0.02)
    layer = ForgetfulLayer()
    listener = ear.Ear(layer, heard=lambda message: None, joined=lambda actor_id: None)
    actor_id = uuid.uuid4()
    listener.want(actor_id)
    listening = asyncio.create_task(listener.listen())
    await until(lambda: layer.joined >= 1)

    listener._wanted.discard(actor_id)  # as unwant() does, right before the time is over

    await until(lambda: layer.left == 1)
    listening.cancel()
    await asyncio.wait([listening])


async def test_groups_are_joined_again_and_again(monkeypatch):
    """A layer that forgets is reminded; each time the actor's clients look at what they may have missed."""
    monkeypatch.setattr(ear, "REJOIN_SECONDS", 0.02)
    layer = ForgetfulLayer()
    joined: list[uuid.UUID] = []
    listener = ear.Ear(layer, heard=lambda message: None, joined=joined.append)
    actor_id = uuid.uuid4()
    listener.want(actor_id)
    listening = asyncio.create_task(listener.listen())
    await until(lambda: layer.joined >= 3)
    assert joined[:3] == [actor_id] * 3
    listener.unwant(actor_id)
    await until(lambda: layer.left == 1)
    listening.cancel()
    await asyncio.wait([listening])
    assert layer.left == 1
