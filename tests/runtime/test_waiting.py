"""Waiting for an answer or a result: where it is refused, and what it costs while it lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction

from django_rivet import Actor, InvalidInputError, Queue, TransactionOpenError, action, workflow
from django_rivet.models import Message
from django_rivet.runtime import waiting
from django_rivet.testing import drive, isolated_actors

Ask = Callable[[Any], str]


def result(handle: Any) -> str:
    try:
        return str(handle.result(0))
    except TimeoutError:
        return "timed_out"


async def aresult(handle: Any) -> str:
    try:
        return str(await handle.aresult(0))
    except TimeoutError:
        return "timed_out"


async def asend_and_wait(handle: Any) -> str:
    return str((await handle.asend_and_wait("letters", "hello", 0)).status)


WAYS: dict[str, Ask] = {
    "send_and_wait": lambda handle: handle.send_and_wait("letters", "hello", 0).status,
    "result": result,
    "asend_and_wait": async_to_sync(asend_and_wait),
    "aresult": async_to_sync(aresult),
}
ways = pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)


@pytest.fixture
def reader() -> Iterator[Any]:
    """An actor that never reads what it is sent."""
    with isolated_actors():

        class Reader(Actor):
            letters = Queue(str)

            @workflow
            def run(self, ctx):
                ctx.sleep("busy", 3600)

        yield Reader


# Where it is refused -----------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@ways
def test_waiting_inside_an_atomic_block_is_refused(reader: Any, ask: Ask) -> None:
    """What was sent in it is seen by nobody, so the wait could only be in vain; nothing is sent."""
    handle = reader.create("one")

    with transaction.atomic(), pytest.raises(TransactionOpenError, match="inside a transaction"):
        ask(handle)

    assert not Message.objects.exists()


@pytest.mark.django_db
@ways
def test_a_test_cases_own_transaction_is_exempt(reader: Any, ask: Ask) -> None:
    """One that the tested code opens in it is not."""
    handle = reader.create("one")

    with transaction.atomic(), pytest.raises(TransactionOpenError, match="inside a transaction"):
        ask(handle)
    assert not Message.objects.exists()

    assert ask(handle) == "timed_out"


@pytest.mark.django_db(transaction=True)
def test_waiting_without_autocommit_is_refused(reader: Any) -> None:
    """A transaction is open there from the first statement on."""
    handle = reader.create("one")
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionOpenError, match="inside a transaction"):
            handle.result(0)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


@pytest.mark.django_db(transaction=True)
def test_waiting_in_an_on_commit_hook_is_allowed(reader: Any) -> None:
    """The transaction is over then, and what it has sent is there for everybody."""
    handle = reader.create("one")
    answers: list[str] = []

    with transaction.atomic():
        transaction.on_commit(lambda: answers.append(handle.send_and_wait("letters", "hello", 0).status))

    assert answers == ["timed_out"]


@pytest.mark.django_db(transaction=True)
@ways
@pytest.mark.parametrize(
    "where", ["workflow", "atomic step", "step", "handler", "action", "readonly", "hook", "on_error"]
)
def test_waiting_in_code_that_an_actor_runs_is_refused(reader: Any, ask: Ask, where: str) -> None:
    """It would hold a worker, and might wait for what waits for it; nothing is sent."""
    handle = reader.create("one")
    refused: list[str] = []

    def wait() -> None:
        with pytest.raises(TransactionOpenError) as raised:
            ask(handle)
        refused.append(str(raised.value))

    class Waiter(Actor):
        def on_create(self, input):
            if where == "hook":
                wait()

        @workflow
        def run(self, ctx):
            if where == "workflow":
                wait()
            elif "step" in where:
                ctx.step("wait", wait, atomic=where == "atomic step")
            elif where == "handler":
                ctx.rollback_checkpoint("begin")
                ctx.step("do", int, rollback=self.undo, rollback_atomic=False)
            if where in ("handler", "on_error"):
                raise LookupError

        @run.on_error
        def note(self, event):
            if where == "on_error":
                wait()

        def undo(self, rollback, output):
            wait()

        @action
        def act(self):
            wait()

        @action(readonly=True)
        def look(self):
            wait()

    waiter = Waiter.create("one")
    if where == "action":
        waiter.act()
    elif where == "readonly":
        waiter.look()
    else:
        drive(waiter)

    assert len(refused) == 1
    assert "waits for the commits of others" in refused[0]
    assert not Message.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("timeout", [-1, "5", float("nan"), True])
def test_a_timeout_that_is_none_is_refused(reader: Any, timeout: Any) -> None:
    """Before anything is sent."""
    handle = reader.create("one")

    with pytest.raises(InvalidInputError, match="timeout"):
        handle.send_and_wait("letters", "hello", timeout)
    with pytest.raises(InvalidInputError, match="timeout"):
        handle.result(timeout)
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ask", [asend_and_wait, aresult])
@pytest.mark.parametrize("atomic", [True, False])
def test_waiting_in_the_body_of_an_async_step_is_refused(reader: Any, ask: Any, atomic: bool) -> None:
    """As in any other body: the twins are no way around it."""
    handle = reader.create("one")

    async def body() -> str:
        try:
            return str(await ask(handle))
        except TransactionOpenError:
            return "refused"

    class Waiter(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("wait", body, atomic=atomic)

    waiter = Waiter.create("one")
    drive(waiter)

    assert waiter.output == "refused"
    assert not Message.objects.exists()


# What it costs -----------------------------------------------------------------------------------


class FakeTime:
    """Passes only where somebody sleeps."""

    def __init__(self, during: Callable[[], None] = lambda: None) -> None:
        self.pauses: list[float] = []
        self._during = during

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._during()


@pytest.mark.django_db(transaction=True)
def test_the_pauses_between_two_looks_grow_to_a_quarter_of_a_second(
    reader: Any, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    """An answer that comes soon is seen soon, a long wait costs four queries a second, and it ends in time."""
    fake = FakeTime()
    handle = reader.create("one")
    monkeypatch.setattr(waiting, "time", fake)

    with django_assert_max_num_queries(60):
        answer = handle.send_and_wait("letters", "hello", 10)

    assert answer.status == "timed_out"
    assert fake.pauses[:3] == [0, 0.01, 0.015]
    assert max(fake.pauses) == 0.25
    assert sum(fake.pauses) == pytest.approx(10)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ask", [lambda h: h.send_and_wait("letters", "", 1), lambda h: h.result(1)])
def test_between_two_looks_no_transaction_is_open(
    reader: Any, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Any], Any]
) -> None:
    """So no lock is held, and behind a pooler the server's session is somebody else's meanwhile."""
    seen = set()

    def look() -> None:
        is_idle = connection.vendor != "postgresql" or connection.connection.info.transaction_status == 0
        seen.add((connection.in_atomic_block, is_idle))

    handle = reader.create("one")
    monkeypatch.setattr(waiting, "time", FakeTime(look))

    with suppress(TimeoutError):
        ask(handle)

    assert seen == {(False, True)}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ask", [lambda h: h.asend_and_wait("letters", "", 0.5), lambda h: h.aresult(0.5)])
def test_an_async_wait_holds_no_thread(reader: Any, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Any], Any]) -> None:
    """All synchronous code of a request shares one thread: between two looks it is free for others."""
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=time.monotonic))  # no thread can sleep by it
    handle = reader.create("one")
    happened: list[str] = []

    async def wait() -> None:
        with suppress(TimeoutError):
            await ask(handle)
        happened.append("the wait is over")

    async def work() -> None:
        await asyncio.gather(wait(), sync_to_async(happened.append)("other work"))

    async_to_sync(work)()

    assert happened == ["other work", "the wait is over"]
