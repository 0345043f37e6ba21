"""An action that takes its time holds up neither events nor other connections, and not for ever those behind it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.urls import path

from django_rivet import Actor, Event, Queue, action
from django_rivet.live import line
from django_rivet.live.consumer import ActorConsumer
from django_rivet.testing import isolated_actors
from tests.conformance.racers import threads_but
from tests.live.conftest import Listener, listening, path_of

pytestmark = pytest.mark.django_db(transaction=True)

_impatient: Any = ActorConsumer.as_asgi(call_seconds=2)
IMPATIENT = [path("ws/rivet/<str:type>/<str:key>/", _impatient)]


class Gate:
    """Holds up an action until the test lets it go on."""

    def __init__(self) -> None:
        self._others = threads_but((), "rivet-left-behind")
        """An earlier test's, which may live on."""
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.left: list[BaseException | None] = []

    async def wait_until_entered(self) -> None:
        # In a thread of its own: connections need the one that asks the database for them.
        assert await asyncio.to_thread(self.entered.wait, 30)

    def open(self) -> None:
        """And wait until who was left behind has ended."""
        self.opened.set()
        for thread in threads_but(self._others, "rivet-left-behind"):
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def mill(gate: Gate) -> Iterator[Any]:
    with isolated_actors():

        class Mill(Actor):
            class State:
                ground: list[int] = []

            ground = Event(int)
            sacks = Queue(int)

            @action
            def grind(self, number: int) -> int:
                self.state.ground.append(number)
                self.ground.broadcast(number)
                return number

            @action
            def grind_slowly(self, number: int) -> int:
                self.grind(number)
                gate.entered.set()
                try:
                    assert gate.opened.wait(60)
                    # From here on the database is asked for something.
                    Mill.get_or_create("other").grind(number)
                except BaseException as error:
                    gate.left.append(error)
                    raise
                gate.left.append(None)
                return number

            @action(readonly=True)
            def dream(self) -> str:
                gate.entered.set()
                assert gate.opened.wait(60)
                return "awake"

            @action(readonly=True)
            def look(self) -> list[int]:
                return self.state.ground

        yield Mill


def act(name: str, *args: Any) -> dict[str, Any]:
    return {"type": "action", "id": name, "action": name, "args": args}


async def subscribed(client: Listener) -> None:
    await client.hear()
    await client.say(type="subscribe", id="subscribed")
    assert (await client.hear())["id"] == "subscribed"


async def test_events_and_subscriptions_go_on_while_an_action_runs(mill: Any, gate: Gate, cookie: str) -> None:
    """Its answer, and those of the calls behind it, come when it has ended, in the order of the frames."""
    await mill.acreate("main")
    other = await mill.acreate("other")
    async with (
        listening(path_of(mill), cookie) as client,
        listening(path_of(mill, "other"), cookie) as neighbour,
    ):
        await subscribed(client)
        await subscribed(neighbour)
        await client.say(**act("dream"))
        await client.say(**act("look"))
        await client.say(type="send", id="sent", queue="sacks", body=1)
        await gate.wait_until_entered()

        await (await mill.aget("main")).acall("grind", 1)
        assert (await client.hear())["payload"] == 1
        await client.say(type="unsubscribe", id="unsubscribed")
        assert (await client.hear())["id"] == "unsubscribed"
        await neighbour.say(**act("grind", 2))
        assert {frame["type"] for frame in await neighbour.hear(2)} == {"result", "event"}
        assert (await other.asnapshot()).state.ground == [2]

        gate.open()
        answers = await client.hear(3)
    assert [each["id"] for each in answers] == ["dream", "look", "sent"]
    assert [each["output"] for each in answers[:2]] == ["awake", [1]]


async def test_a_bounded_number_of_calls_waits(
    mill: Any, gate: Gate, cookie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One too many is refused at once, with its id; the others are answered."""
    monkeypatch.setattr(line, "MAX_WAITING", 2)
    await mill.acreate("main")
    async with listening(path_of(mill), cookie) as client:
        await client.hear()
        await client.say(**act("dream"))
        await gate.wait_until_entered()
        for number in range(3):
            await client.say(**act("grind", number) | {"id": number})
        refused = await client.hear()
        assert (refused["code"], refused["id"]) == ("too_many_calls", 2)
        gate.open()
        answers = await client.hear(3)
    assert [each["id"] for each in answers] == ["dream", 0, 1]
    assert (await (await mill.aget("main")).asnapshot()).state.ground == [0, 1]


async def test_an_action_is_given_up_when_its_time_is_over(mill: Any, gate: Gate, cookie: str) -> None:
    """The next call is dealt with, nothing of it was kept, and what it does later is refused."""
    main = await mill.acreate("main")
    async with listening(path_of(mill), cookie, routes=IMPATIENT) as client:
        await subscribed(client)
        await client.say(**act("grind_slowly", 1))
        answer = await client.hear()
        assert (answer["code"], answer["id"]) == ("action_timeout", "grind_slowly")
        assert answer["message"] == (
            "The action took longer than 2 s and was given up; its transaction was rolled back."
        )

        await client.say(**act("look"))
        assert await client.hear() == {"type": "result", "id": "look", "output": []}
        await asyncio.to_thread(gate.open)
        assert await client.hears_nothing()

    assert (await main.asnapshot()).state.ground == []
    [left] = gate.left
    assert left is not None
    assert not isinstance(left, AssertionError)


async def test_a_turn_that_was_given_up_is_free(mill: Any, gate: Gate, cookie: str) -> None:
    """A thread cannot be stopped, but it is cut off: the actor does not wait for it."""
    main = await mill.acreate("main")
    async with listening(path_of(mill), cookie, routes=IMPATIENT) as client:
        await client.hear()
        await client.say(**act("grind_slowly", 1))
        assert (await client.hear())["code"] == "action_timeout"
        assert await main.acall("grind", 2) == 2
    assert (await main.asnapshot()).state.ground == [2]


async def test_a_client_that_leaves_does_not_undo_its_call(mill: Any, gate: Gate, cookie: str, settings: Any) -> None:
    """What runs is finished, as over HTTP; what still waits behind it is not begun."""
    settings.RIVET = {"TURN_TIMEOUT": 60}
    main = await mill.acreate("main")
    async with listening(path_of(mill), cookie) as client:
        await client.hear()
        await client.say(**act("grind_slowly", 1))
        await client.say(**act("grind", 2))
        await gate.wait_until_entered()

    await asyncio.to_thread(gate.open)
    async with listening(path_of(mill), cookie) as witness:
        assert (await witness.hear())["type"] == "init"
        # The turn is free when the action has ended.
        await main.acall("grind", 3)
    assert (await main.asnapshot()).state.ground == [1, 3]


async def test_no_connection_to_the_database_is_left_open(mill: Any, cookie: str) -> None:
    """Where connections are not kept, a thread of ours keeps none either."""
    assert connection.settings_dict["CONN_MAX_AGE"] == 0
    await mill.acreate("main")
    from django_rivet.live import threads

    async with listening(path_of(mill), cookie) as client:
        await client.hear()
        await client.say(**act("grind", 1))
        await client.hear()
        await threads.in_thread(lambda: None)
    kept = [await threads.in_thread(lambda: connection.connection) for _ in range(threads.THREADS)]
    assert kept == [None] * threads.THREADS
