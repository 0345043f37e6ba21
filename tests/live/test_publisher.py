"""Telling the channel layer: from wherever an actor runs, and whatever becomes of Redis."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from channels.db import database_sync_to_async
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import connections, transaction

from django_rivet.runtime import publisher
from django_rivet.runtime.publisher import MAX_WAITING, drain, group_of, publish
from tests.live.redis_layers import connections_of, layer_at
from tests.services import dies_with_parent

pytestmark = pytest.mark.django_db(transaction=True)


class Group:
    """What arrives at a group of the pub/sub layer, heard without Channels."""

    def __init__(self, url: str, *actor_ids: uuid.UUID) -> None:
        self.layer = RedisPubSubChannelLayer(hosts=[url])
        self.client = redis.Redis.from_url(url)
        self.pubsub = self.client.pubsub(ignore_subscribe_messages=True)
        self.pubsub.subscribe(*(f"asgi__group__{group_of(each)}" for each in actor_ids))
        for _ in actor_ids:
            self.pubsub.get_message(timeout=5)

    def hear(self, timeout: float = 5) -> Any:
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            message = self.pubsub.get_message(timeout=left)
            if message is not None:
                return self.layer.deserialize(message["data"])
        return None

    def close(self) -> None:
        self.pubsub.close()
        self.client.close()


@pytest.fixture
def group(redis_url) -> Iterator[Any]:
    opened = []

    def listen(*actor_ids: uuid.UUID) -> Group:
        opened.append(Group(redis_url, *actor_ids))
        return opened[-1]

    yield listen
    for each in opened:
        each.close()


# Wherever it is called ---------------------------------------------------------------------------


def test_two_hundred_broadcasts_use_one_connection(redis_layer):
    """An actor that broadcasts again and again does not connect again and again."""
    before, seen = connections_of(redis_layer), set()
    for _ in range(20):
        for _ in range(10):
            publish(uuid.uuid4())
        assert drain(5)
        seen |= connections_of(redis_layer) - before
    assert len(seen) == 1


def test_threads_share_the_connection(redis_layer):
    """The threads pool of a worker has one loop for all of its threads."""
    before = connections_of(redis_layer)

    def publish_some(_):
        for _ in range(25):
            publish(uuid.uuid4())
        connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(publish_some, range(8)))
    assert drain(5)
    assert len(connections_of(redis_layer) - before) == 1


async def test_async_code_shares_it_too(redis_layer):
    """A running event loop is neither used nor blocked."""
    before = connections_of(redis_layer)
    await asyncio.gather(*(database_sync_to_async(publish)(uuid.uuid4()) for _ in range(50)))
    assert await asyncio.to_thread(drain, 5)
    assert len(connections_of(redis_layer) - before) == 1


def test_what_is_told(settings, redis_url, fresh_sender, group):
    """A look says no more than where to look; a passing event is all there is of it."""
    settings.CHANNEL_LAYERS = layer_at(redis_url)
    actor_id = uuid.uuid4()
    heard = group(actor_id)
    publish(actor_id)
    publish(actor_id, [("blinked", "1"), ("blinked", "2")], look=False)
    assert [heard.hear() for _ in range(3)] == [
        {"type": "rivet.look", "actor": actor_id.hex},
        {"type": "rivet.event", "actor": actor_id.hex, "name": "blinked", "payload": "1"},
        {"type": "rivet.event", "actor": actor_id.hex, "name": "blinked", "payload": "2"},
    ]


def test_a_rolled_back_transaction_tells_nothing(settings, redis_url, fresh_sender, group):
    """What did not happen is told to nobody."""
    settings.CHANNEL_LAYERS = layer_at(redis_url)
    actor_id = uuid.uuid4()
    heard = group(actor_id)
    with transaction.atomic():
        publish(actor_id)
        transaction.set_rollback(True)
    publish(actor_id, [("blinked", "1")], look=False)
    assert heard.hear()["type"] == "rivet.event"


FORKING = """
import json, os, sys, uuid
import django
django.setup()
from django.db import connections
from django_rivet.runtime.publisher import drain, publish

ids = [uuid.UUID(each) for each in json.loads(sys.argv[1])]
publish(ids[0])
assert drain(5)
for child in (1, 2):
    connections.close_all()
    pid = os.fork()
    if pid == 0:
        for actor_id in ids[100 * child - 99 : 100 * child + 1]:
            publish(actor_id)
        os._exit(0 if drain(5) else 1)
    assert os.waitpid(pid, 0)[1] == 0
publish(ids[0])
"""


def test_children_of_a_fork_tell_by_themselves(child_environment, redis_url, group):
    """A prefork worker's children have threads and connections of their own; the parent's go on. Nothing is printed."""
    actor_ids = [uuid.uuid4() for _ in range(201)]
    heard = group(*actor_ids)
    before = connections_of(redis_url)
    run = subprocess.run(
        [sys.executable, "-W", "default", "-c", FORKING, json.dumps([str(each) for each in actor_ids])],
        env={**child_environment, "REDIS_URL": redis_url},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=dies_with_parent(),
    )
    assert (run.returncode, run.stderr) == (0, "")
    told = [heard.hear()["actor"] for _ in range(202)]
    assert sorted(told) == sorted([actor_ids[0].hex, *(each.hex for each in actor_ids)])
    assert told[-1] == actor_ids[0].hex, "also what is told last, at the end of a short command, gets out"
    assert connections_of(redis_url) <= before


# Whatever becomes of Redis -----------------------------------------------------------------------


def test_without_redis_a_turn_succeeds_and_says_so_once(guarded_layer, ticker, caplog):
    """The event is a row; the log has one line about the outage, however many events there are."""
    main = ticker.create("main")
    for number in range(20):
        main.tick(number)
    assert drain(10)
    assert [r.levelname for r in caplog.records if r.name == publisher.__name__] == ["WARNING"]
    main.note({})


def test_a_redis_that_hangs_holds_up_nobody(guarded_layer, caplog):
    """Broadcasting takes no longer, and what waits is bounded."""
    guarded_layer.hang()
    began = time.monotonic()
    for _ in range(3 * MAX_WAITING):
        publish(uuid.uuid4())
    assert time.monotonic() - began < 5
    sender = publisher._sender
    assert len(sender._waiting) <= MAX_WAITING
    tasks = asyncio.run_coroutine_threadsafe(count_tasks(), sender._loop).result(5)
    assert tasks <= 5
    sender._waiting.clear()
    assert drain(5)


async def count_tasks() -> int:
    return len(asyncio.all_tasks())


@pytest.mark.parametrize("outage", ["hang", "shut"])
def test_when_redis_is_back_messages_flow_again(settings, door, redis_url, fresh_sender, group, monkeypatch, outage):
    """Nobody has to restart anything."""
    monkeypatch.setattr(publisher, "SEND_SECONDS", 0.2)
    settings.CHANNEL_LAYERS = layer_at(door.url)
    lost, found = uuid.uuid4(), uuid.uuid4()
    heard = group(lost, found)
    getattr(door, outage)()
    publish(lost)
    assert drain(10)
    door.lead_on()
    publish(found)
    assert heard.hear() == {"type": "rivet.look", "actor": found.hex}
