"""What a client that was let in gets to hear."""

import uuid
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import quote

import pytest
from channels.db import database_sync_to_async
from django.db import transaction

from django_rivet.models import Actor as ActorRow
from django_rivet.models import Event as EventRow
from django_rivet.runtime.publisher import publish
from tests.live.conftest import ClosedByServer, listening, path_of

pytestmark = pytest.mark.django_db(transaction=True)


def event(seq, number):
    return {"type": "event", "name": "ticked", "payload": number, "seq": seq}


@database_sync_to_async
def prune(handle, up_to):
    EventRow.objects.filter(actor_id=handle.id, seq__lte=up_to).delete()


@database_sync_to_async
def destroy(handle):
    ActorRow.objects.filter(pk=handle.id).delete()


async def test_events_arrive_in_order_after_the_subscription(ticker, cookie):
    """A client learns the number of the last event, subscribes, and gets what is broadcast from then on."""
    main = await ticker.acreate("main")
    await main.acall("tick", 1)
    async with listening(path_of(ticker), cookie) as client:
        assert await client.hear() == {"type": "init", "seq": 1}
        await client.say(type="subscribe", events=["ticked"])
        await main.acall("tick", 2, 3)
        await main.acall("tick", 4)
        assert await client.hear(3) == [event(2, 2), event(3, 3), event(4, 4)]


async def test_a_subscription_begins_where_init_says(ticker, cookie):
    """What is broadcast between the connection and the subscription is not lost."""
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        assert await client.hear() == {"type": "init", "seq": 0}
        await main.acall("tick", 1)
        await client.say(type="subscribe")
        assert await client.hear() == event(1, 1)


async def test_only_what_was_subscribed_to_comes(ticker, cookie):
    """Names select; what is unsubscribed from stops, and numbers go on regardless."""
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe", events=["noted"])
        await main.acall("tick", 1)
        await main.acall("note", {"a": 1})
        assert await client.hear() == {"type": "event", "name": "noted", "payload": {"a": 1}, "seq": 2}

        await client.say(type="subscribe", events=["ticked"])
        await client.say(type="unsubscribe", events=["noted"])
        await client.settle()
        await main.acall("note", {"a": 2})
        await main.acall("tick", 2)
        assert await client.hear() == event(4, 2)

        await client.say(type="unsubscribe")
        await client.settle()
        await main.acall("tick", 3)
        assert await client.hears_nothing()


async def test_a_failed_turn_is_not_heard_of(ticker, cookie):
    """Events of an action that raised never happened, and take no number."""
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        with pytest.raises(ValueError, match="undone"):
            await main.acall("fail", 1)
        await main.acall("tick", 2)
        assert await client.hear() == event(1, 2)


async def test_nothing_is_heard_before_the_commit(ticker, cookie):
    """An event of an open transaction is seen by nobody; rolled back, it never is."""
    main = await ticker.acreate("main")

    @database_sync_to_async
    def call_and_roll_back():
        with transaction.atomic():
            main.tick(1)
            transaction.set_rollback(True)

    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await call_and_roll_back()
        assert await client.hears_nothing()


async def test_a_client_that_comes_back_misses_none_and_gets_none_twice(ticker, cookie):
    """With ``since`` everything after that number comes, in more than one batch if need be, then what is new."""
    main = await ticker.acreate("main")
    await main.acall("tick", *range(1, 131))
    async with listening(path_of(ticker), cookie) as client:
        assert await client.hear() == {"type": "init", "seq": 130}
        await client.say(type="subscribe", events=["ticked"], since=7)
        await main.acall("tick", 131)
        assert await client.hear(124) == [event(n, n) for n in range(8, 132)]
        assert await client.hears_nothing()


async def test_a_client_that_comes_too_late_is_told_of_the_gap(ticker, cookie):
    """Events that were pruned are named before the first that is left."""
    main = await ticker.acreate("main")
    await main.acall("tick", 1, 2, 3, 4, 5)
    await prune(main, 3)
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe", events=["noted"], since=1)
        assert await client.hear() == {"type": "gap", "from": 2, "to": 3}
        await main.acall("note", {})
        assert (await client.hear())["seq"] == 6


async def test_a_client_that_has_what_was_pruned_is_told_of_no_gap(ticker, cookie):
    """The oldest event left is the very next one."""
    main = await ticker.acreate("main")
    await main.acall("tick", 1, 2, 3)
    await prune(main, 2)
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe", since=2)
        assert await client.hear() == event(3, 3)


async def test_a_gap_that_reaches_to_the_end_is_told_of(ticker, cookie):
    """All events were pruned: there is no row that could show it."""
    main = await ticker.acreate("main")
    await main.acall("tick", 1, 2, 3)
    await prune(main, 3)
    async with listening(path_of(ticker), cookie) as client:
        assert await client.hear() == {"type": "init", "seq": 3}
        await client.say(type="subscribe", since=0)
        assert await client.hear() == {"type": "gap", "from": 1, "to": 3}
        await main.acall("tick", 4)
        assert await client.hear() == event(4, 4)


async def test_a_number_from_an_earlier_life_of_the_key(ticker, cookie):
    """A ``since`` above the last number is none of this actor's: all of its events are new to the client."""
    main = await ticker.acreate("main")
    await main.acall("tick", 1)
    async with listening(path_of(ticker), cookie) as client:
        assert await client.hear() == {"type": "init", "seq": 1}
        await client.say(type="subscribe", since=57)
        assert await client.hear() == event(1, 1)


async def test_a_destroyed_actor_closes_the_connection(ticker, cookie):
    """Nobody waits for events of an actor that is gone."""
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await destroy(main)
        with pytest.raises(ClosedByServer) as closed:
            await client.hear()
        assert closed.value.code == 4404


async def test_each_actor_has_listeners_of_its_own(ticker, cookie):
    """Two keys, also such as would be one in a careless encoding, never hear each other."""
    one = await ticker.acreate(("a", "0b"))
    other = await ticker.acreate("a~b")
    async with (
        listening(path_of(ticker, ("a", "0b")), cookie) as first,
        listening(path_of(ticker, "a~b"), cookie) as second,
    ):
        for client in (first, second):
            await client.hear()
            await client.say(type="subscribe")
        await one.acall("tick", 1)
        await other.acall("tick", 2)
        assert await first.hear() == event(1, 1)
        assert await second.hear() == event(1, 2)
        assert await first.hears_nothing()


@pytest.mark.parametrize("key", ["with space", "a:b", "ü" * 200, "日本", "#?&%25", "x" * 1000])
async def test_any_key_can_be_listened_to(ticker, cookie, key):
    """Groups are named after ids, so a key may hold what group names may not."""
    main = await ticker.acreate(key)
    async with listening(quote(path_of(ticker, key)), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await main.acall("tick", 1)
        assert await client.hear() == event(1, 1)


async def test_payloads_are_plain_json(ticker, cookie):
    """What JSON does not know arrives as text; no tag of the storage format gets out."""
    main = await ticker.acreate("main")
    note = {
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "price": Decimal("1.10"),
        "id": uuid.UUID(int=1),
        "raw": b"\xff",
        "big": 10**30,
        "text": "ü\u2028</script>",
        "$uuid": "mine",
    }
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe")
        await main.acall("note", note)
        assert (await client.hear())["payload"] == {
            "at": "2026-01-02T03:04:05+00:00",
            "price": "1.10",
            "id": "00000000-0000-0000-0000-000000000001",
            "raw": "/w==",
            "big": 10**30,
            "text": "ü\u2028</script>",
            "$uuid": "mine",
        }


async def test_a_passing_event_has_no_number(ticker, cookie):
    """An event with ``stored=False`` reaches who listens, and only them."""
    main = await ticker.acreate("main")
    await main.acall("blink", 1)
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe", events=["blinked"])
        await client.settle()
        await main.acall("blink", 2)
        assert await client.hear() == {"type": "event", "name": "blinked", "payload": 2}
        assert not await database_sync_to_async(EventRow.objects.exists)()


async def test_a_passing_event_waits_for_the_commit(ticker, cookie):
    """It is told of after the commit, or never."""
    main = await ticker.acreate("main")

    @database_sync_to_async
    def publish_in_a_transaction(*, fails):
        with transaction.atomic():
            publish(uuid.UUID(main.id), [("blinked", "5" if fails else "6")], look=False)
            transaction.set_rollback(fails)

    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await client.say(type="subscribe", events=["blinked"])
        await client.settle()
        await publish_in_a_transaction(fails=True)
        await publish_in_a_transaction(fails=False)
        assert await client.hear() == {"type": "event", "name": "blinked", "payload": 6}
