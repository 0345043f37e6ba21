"""Many writers on one database: no user sees a lock, and no change is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection, transaction
from rest_framework.test import APIClient

from django_rivet import Actor, CriticalError, action, workflow
from django_rivet.models import Message
from django_rivet.testing import SimulatedCrash, advance, drive, isolated_actors, reset_clock
from tests.journeys.actors import OrderActor, StockActor
from tests.journeys.conftest import StartWorker
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.workers import eventually
from tests.runtime.test_turns import at_once

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]

ACTORS = 30
CLIENTS = 4
REQUESTS = 25


@pytest.fixture
def plain_sqlite(child_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Here and in the workers; on another database nothing is changed."""
    if connection.vendor != "sqlite":
        yield
        return
    child_environment["DJANGO_SETTINGS_MODULE"] = "tests.journeys.plain_sqlite"
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict, "OPTIONS", {})
        connection.close()
        eventually(leaves_wal, 30, "nobody else has the file open any more")
        yield
    connection.close()


def leaves_wal() -> bool:
    """Processes that an earlier test has killed may still be going."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode=DELETE")
            return bool(cursor.fetchone() == ("delete",))
    except OperationalError:
        return False


@pytest.fixture(params=["recommended", "plain"])
def options(request: pytest.FixtureRequest) -> str:
    if request.param == "plain":
        request.getfixturevalue("plain_sqlite")
    return str(request.param)


def test_four_workers_and_a_web_process_on_one_database(options: str, start_worker: StartWorker, ledger: Path) -> None:
    """Every order ends once, and no client gets anything but its result, also while somebody writes for seconds."""
    # Given thirty orders, one of three of which cannot be shipped, and four worker processes
    user = User.objects.create_superuser("root")
    stock = StockActor.create("main")
    for n in range(ACTORS):
        OrderActor.create(f"actor-{n}").send("orders", {"id": str(n), "fails": n % 3 == 2})
    worker = start_worker("--concurrency=4", SWEEP_SECONDS=0.2, LEASE_SECONDS=10)
    eventually(lambda: worker.is_ready, 30, "the workers are ready", worker.log)

    # When a hundred requests come in at the same time, and one transaction takes two seconds
    def work(n: int) -> list[int]:
        if n == 0:
            with transaction.atomic():
                Effect.objects.create(name="slow")
                time.sleep(2)
            return []
        client = APIClient()
        client.force_authenticate(user)
        return [_reserve(client, f"client-{n}-{k}") for k in range(REQUESTS)]

    answers = Counter(status for statuses in at_once(CLIENTS + 1, work) for status in statuses)

    # Then all of them were answered, and all orders end as they should
    assert answers == {200: CLIENTS * REQUESTS}
    waiting = Message.objects.filter(status="queued")
    eventually(lambda: not waiting.exists() and _all_asleep(), 30, "all orders end", worker.log)
    confirmed = [str(n) for n in range(ACTORS) if n % 3 != 2]
    rejected = [str(n) for n in range(ACTORS) if n % 3 == 2]
    wanted = [f"reserve:{n}" for n in range(ACTORS)] + [f"confirm:{n}" for n in confirmed]
    wanted += [f"release:{n}" for n in rejected] + ["slow"]
    assert Counter(Effect.objects.values_list("name", flat=True)) == Counter(wanted)
    clients = [f"client-{n}-{k}" for n in range(1, CLIENTS + 1) for k in range(REQUESTS)]
    assert sorted(stock.state.reserved) == sorted(confirmed + clients)
    charged = {effect: sum(keys.values()) for effect, keys in effects(ledger).items() if effect.startswith("charge:")}
    assert charged == {f"charge:{n}": 1 for n in range(ACTORS)}
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode")
            assert cursor.fetchone() == ("delete" if options == "plain" else "wal",), "nobody changed it meanwhile"


def _reserve(client: APIClient, order: str) -> int:
    """As a client has to: a busy actor has done nothing, and is asked again."""
    url = "/api/actors/journeys.StockActor/main/actions/reserve/"
    for _ in range(5):
        response = client.post(url, {"args": [order]}, format="json")
        if response.status_code != 409:
            break
    return response.status_code


def _all_asleep() -> bool:
    return all(OrderActor.get(f"actor-{n}").status == "sleeping" for n in range(ACTORS))


class Meeting:
    """A body that waits, in the middle of its change, until others have come to the door."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def hold(self) -> None:
        self.begun.set()
        time.sleep(0.5)

    def visit(self, actions: Callable[[int], Any], work: Callable[[], Any], visitors: int = 10) -> None:
        """``work`` in one thread, and ``actions(n)`` in ten others once it holds."""

        def run(n: int) -> None:
            if n == 0:
                with suppress(SimulatedCrash):
                    work()
            else:
                assert self.begun.wait(10)
                actions(n)

        at_once(visitors + 1, run)


@pytest.fixture
def counter() -> Iterator[Any]:
    """An actor's base whose state everybody changes."""
    with isolated_actors():

        class Base(Actor):
            class Meta:
                abstract = True

            class State:
                n: int = 0
                log: list[str] = []

            @action
            def add(self) -> None:
                self.state.n += 1
                self.state.log.append("action")

            @action
            def spoil(self) -> None:
                self.state.n += 1000
                self.state.log.append("spoiled")
                raise ValueError("no")

        yield Base
    reset_clock()


def add_or_spoil(handle: Any) -> Callable[[int], None]:
    """Every other visitor's action raises after it has changed the state."""

    def act(n: int) -> None:
        if n % 2:
            handle.add()
        else:
            with pytest.raises(ValueError, match="no"):
                handle.spoil()

    return act


@pytest.mark.parametrize("end", ["succeeds", "is tried again", "dies"])
def test_actions_while_a_step_changes_the_state_lose_nothing(counter: Any, end: str) -> None:
    """They wait for its turn to end; of an attempt that fails or dies, and of an action that raises, nothing stays."""
    meeting, attempts = Meeting(), []

    class Order(counter):  # type: ignore[misc]  # a base that a fixture makes
        @workflow
        def run(self, ctx):
            ctx.step("count", self.count, retry_backoff_base=0)

        def count(self):
            attempts.append(1)
            self.state.n += 1
            if len(attempts) == 1:
                meeting.hold()
                if end == "dies":
                    raise SimulatedCrash
                if end == "is tried again":
                    raise OSError("busy")
            self.state.log.append("step")

    order = Order.create("one")

    meeting.visit(add_or_spoil(order), lambda: drive(order))
    while drive(order) != "completed":
        advance(60)

    assert order.state.n == 6, "five actions and one step"
    assert sorted(order.state.log) == ["action"] * 5 + ["step"]
    assert len(attempts) == (1 if end == "succeeds" else 2)


def test_actions_while_a_rollback_handler_changes_the_state_lose_nothing(counter: Any) -> None:
    """A handler holds the turn like a step."""
    meeting = Meeting()

    class Order(counter):  # type: ignore[misc]  # a base that a fixture makes
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", int, rollback=self.release)
            ctx.step("charge", self.charge)

        def charge(self):
            raise CriticalError("declined")

        def release(self, rollback, output):
            self.state.n += 1
            meeting.hold()
            self.state.log.append("release")

    order = Order.create("one")

    meeting.visit(add_or_spoil(order), lambda: drive(order))

    assert order.status == "failed"
    assert order.state.n == 6
    assert sorted(order.state.log) == ["action"] * 5 + ["release"]


def test_actions_while_the_workflow_sleeps_need_not_wait(counter: Any) -> None:
    """Nobody holds the turn of an actor that waits, and the next step sees what they did."""

    class Order(counter):  # type: ignore[misc]  # a base that a fixture makes
        @workflow
        def run(self, ctx):
            ctx.sleep("night", 60)
            return ctx.step("count", lambda: self.state.n)

    order = Order.create("one")
    drive(order)

    at_once(10, add_or_spoil(order))
    advance(61)
    drive(order)

    assert order.output == 5
