"""``async def`` methods have the state like any other, although a coroutine may not ask the database for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from django_rivet import Actor, action, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def counter() -> Iterator[type[Actor]]:
    with isolated_actors():

        class Counter(Actor):
            class State:
                count: int = 0

            @workflow
            def run(self, ctx):
                return ctx.step("add", lambda: Counter.get("main").add(), max_retries=0)

            @action
            async def add(self) -> int:
                await asyncio.sleep(0)
                self.state.count += 1
                return self.state.count

            @action
            def add_by_another_action(self) -> int:
                return Counter.get("main").add()

            @action(readonly=True)
            async def look(self) -> int:
                return self.state.count

        yield Counter


def test_an_async_action_changes_the_state(counter: type[Actor]) -> None:
    """It is awaited, and its change saved when the turn ends."""
    handle = counter.create("main")

    assert handle.add() == 1

    assert handle.state.count == 1


def test_an_async_action_called_by_another_one_changes_the_state_of_their_turn(counter: type[Actor]) -> None:
    """It joins the turn of its caller, which saves it."""
    handle = counter.create("main")

    assert handle.add_by_another_action() == 1

    assert handle.state.count == 1


def test_an_async_action_of_the_own_actor_can_be_called_in_a_step(counter: type[Actor]) -> None:
    """It joins the step's turn, and its change lands with the record."""
    handle = counter.create("main")

    assert drive(handle) == "completed", str(handle.error)

    assert (handle.output, handle.state.count) == (1, 1)


def test_an_async_read_only_action_sees_the_state(counter: type[Actor]) -> None:
    """What is committed is read before the coroutine begins."""
    handle = counter.create("main")
    handle.add()

    assert handle.look() == 1


def test_an_async_creation_hook_changes_the_state() -> None:
    """What it awaits is part of the creation."""
    with isolated_actors():

        class Room(Actor):
            class State:
                guests: list[str] = []

            async def on_create(self, input):
                await asyncio.sleep(0)
                self.state.guests.append("host")

        room = Room.create("main")

        assert room.state.guests == ["host"]
