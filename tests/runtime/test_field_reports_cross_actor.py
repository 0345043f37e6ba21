"""Sagas over several actors: the parent stops, and what its children did for it is taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, connections

from django_rivet import Actor, ActorNotFoundError, CriticalError, Queue, action, current_step, workflow
from django_rivet.models import Actor as ActorRow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE_SECONDS = 60
"""How long anything here may take on a slow machine."""


@pytest.fixture
def trade() -> Iterator[SimpleNamespace]:
    """A stock and a till that work on requests, and orders that ask for both; the till declines everything.

    An order's key says how it asks: ``action ...`` calls, ``message ...`` sends and waits for the answering message.
    """
    gate = SimpleNamespace(entered=threading.Event(), opened=threading.Event())
    with isolated_actors():

        class Stock(Actor):
            class State:
                reserved: list[str] = []
                log: list[str] = []

            requests = Queue(dict)

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("requests"):
                    request = turn.queue.next("request", names=["requests"]).body
                    if request["do"] == "count":
                        # A frozen writer stops everybody on SQLite: there it counts without a transaction.
                        turn.step("count", self.count, atomic=connection.vendor == "postgresql", timeout=0)
                    else:
                        turn.step("work", self.work, request)

            def count(self):
                list(self.state.reserved)  # an atomic body holds the actor's turn from here on
                gate.entered.set()
                assert gate.opened.wait(PATIENCE_SECONDS)

            def work(self, request):
                if request["do"] == "reserve":
                    self.reserve(request["order"])
                    Order.get(request["order"]).send("answers", "reserved")
                else:
                    self.release(request["order"])

            @action
            def reserve(self, order: str) -> None:
                self.state.reserved.append(order)
                self.state.log.append(f"reserve {order}")

            @action
            def release(self, order: str) -> None:
                self.state.log.append(f"release {order}")
                self.state.reserved.remove(order)

        class Till(Actor):
            requests = Queue(str)

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("requests"):
                    order = turn.queue.next("request", names=["requests"]).body
                    turn.step("decline", self.decline, order)

            def decline(self, order):
                Order.get(order).send("answers", "declined")

            @action
            def charge(self, order: str) -> None:
                raise CriticalError("declined")

        class Order(Actor):
            class State:
                options: dict[str, Any] = {}

            answers = Queue(str)

            def create_state(self, input):
                return {"options": input or {}}

            @workflow
            def run(self, ctx):
                options = ctx.step("options", lambda: self.state.options)
                ctx.rollback_checkpoint("order")
                ctx.step("reserve", self.reserve, rollback=self.release, rollback_backoff_base=0, **options)
                if self.asks_by_message:
                    ctx.queue.next("reserved", names=["answers"], timeout=600)
                ctx.step("pay", self.pay)
                if self.asks_by_message and ctx.queue.next("paid", names=["answers"], timeout=600).body == "declined":
                    raise CriticalError("declined")

            @property
            def asks_by_message(self):
                return self.key.startswith("message")

            def reserve(self):
                stock = Stock.get("main")
                if not self.asks_by_message:
                    stock.reserve(self.key)
                else:
                    key = current_step().idempotency_key
                    stock.send("requests", {"do": "reserve", "order": self.key}, idempotency_key=key)
                if self.dies.pop(self.key, None):
                    raise SimulatedCrash

            def pay(self):
                if self.asks_by_message:
                    Till.get("main").send("requests", self.key)
                else:
                    Till.get("main").charge(self.key)

            def release(self, rollback, output):
                Stock.get("main").send("requests", {"do": "release", "order": self.key})

            dies: dict[str, bool] = {}

        yield SimpleNamespace(
            Stock=Stock, Till=Till, Order=Order, gate=gate, stock=Stock.create("main"), till=Till.create("main")
        )


by_either = pytest.mark.parametrize("way", ["action", "message"])


def assert_taken_back(trade: SimpleNamespace, order: Any, status: str = "failed") -> None:
    assert order.status == status
    assert trade.stock.state.reserved == []
    assert trade.stock.state.log == [f"reserve {order.key}", f"release {order.key}"]
    assert order.history()["reserve"].rollback.status == "completed"


def drive_all_the_way() -> None:
    """Whoever dies on the way is taken over."""
    for _ in range(5):
        with suppress(SimulatedCrash):
            drive()
        advance(5)


@by_either
def test_a_parent_that_fails_has_its_reservation_released_once(trade: SimpleNamespace, way: str) -> None:
    """Whether it asked by a call or by a message: the undo reaches the stock after the reservation, and once."""
    order = trade.Order.create(f"{way} o-1")

    drive()

    assert "declined" in str(order.error)
    assert_taken_back(trade, order)


def test_a_parent_that_is_cancelled_while_a_child_is_at_work_releases_too(trade: SimpleNamespace) -> None:
    """The till has not answered yet; its late answer is refused by the cancelled order, and troubles nobody."""
    order = trade.Order.create("message o-1")
    drive(order)
    drive(trade.stock)
    drive(order)
    assert order.waiting_for == ["answers"]
    assert trade.stock.state.reserved == [order.key]

    assert order.cancel(rollback=True)
    drive(order)
    drive(trade.stock)

    assert_taken_back(trade, order, "cancelled")


@by_either
def test_a_stock_that_is_busy_takes_the_release_when_it_is_done(trade: SimpleNamespace, way: str) -> None:
    """The undo waits for nobody: it only sends. The parent has ended before the stock's long step has."""
    # Given an order that has its reservation, and a stock that has begun to count
    order = trade.Order.create(f"{way} o-1")
    if way == "message":
        drive(order)
        drive(trade.stock)
    else:
        trade.Till.get("main")
        with crash_at(4), pytest.raises(SimulatedCrash):
            drive(order)
    assert trade.stock.state.reserved == [order.key]
    trade.stock.send("requests", {"do": "count"})
    counting = in_a_thread(lambda: drive(trade.stock))
    assert trade.gate.entered.wait(PATIENCE_SECONDS)

    # When the order fails meanwhile
    drive(order)
    drive(trade.till)
    assert drive(order) == "failed"
    assert trade.stock.state.log == [f"reserve {order.key}"]

    # Then the stock releases as soon as it can
    trade.gate.opened.set()
    counting.join(PATIENCE_SECONDS)
    drive()
    assert_taken_back(trade, order)


def in_a_thread(work: Any) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@by_either
@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_no_commit_of_anybody_can_be_lost_so_that_a_reservation_stays(
    trade: SimpleNamespace, way: str, after: bool
) -> None:
    """A worker dies at each commit in turn: the parent's, the stock's and the till's, those of the undo included."""
    for n in range(1, 100):
        order = trade.Order.create(f"{way} o-{n}")
        with suppress(SimulatedCrash), crash_at(n, after=after) as point:
            drive()
        drive()

        log = [line for line in trade.stock.state.log if line.endswith(order.key)]
        assert (n, log) == (n, [f"reserve {order.key}", f"release {order.key}"])
        assert (n, trade.stock.state.reserved, order.status) == (n, [], "failed")
        if not point.crashed:
            break
    assert 8 < n < 99


@pytest.mark.parametrize(
    ("way", "options"),
    [
        ("action", {}),
        ("message", {}),
        ("message", {"atomic": False}),
        ("message", {"atomic": False, "rollback_when": "attempted"}),
        ("message", {"at_most_once": True, "rollback_when": "attempted"}),
    ],
    ids=["action", "message", "not atomic", "attempted", "at most once"],
)
def test_a_parent_that_dies_between_its_request_and_the_record_leaves_no_orphan(
    trade: SimpleNamespace, way: str, options: dict[str, Any]
) -> None:
    """What an atomic body asked for is gone with it. A message of another one is sent again under its key, which is
    the first one; or, sent at most once, it is taken back as an attempt of unknown outcome.
    """
    order = trade.Order.create(f"{way} o-1", options)
    trade.Order.dies[order.key] = True

    drive_all_the_way()

    if "at_most_once" in options:
        assert order.error.name == "StepInterruptedError"
    assert_taken_back(trade, order)


def test_a_call_from_a_body_that_is_not_atomic_is_made_again(trade: SimpleNamespace) -> None:
    """It has committed by itself, and carries no key: an action that is called like this has to know the order."""
    order = trade.Order.create("action o-1", {"atomic": False})
    trade.Order.dies[order.key] = True

    drive_all_the_way()

    assert trade.stock.state.log == ["reserve action o-1"] * 2 + ["release action o-1"]


@by_either
def test_a_stock_that_is_gone_leaves_a_rollback_that_failed_and_no_endless_wait(
    trade: SimpleNamespace, way: str
) -> None:
    """The handler's attempts are used up, and the actor says so; with a stock again, ``recover()`` goes on."""
    order = trade.Order.create(f"{way} o-1")
    if way == "message":
        drive(order)
        drive(trade.stock)
    else:
        with crash_at(4), pytest.raises(SimulatedCrash):
            drive(order)
    ActorRow.objects.filter(pk=trade.stock.id).delete()

    for _ in range(10):
        drive()
        advance(60)

    assert order.status == "rollback_failed"
    handler = order.history()["reserve"].rollback
    assert (handler.status, handler.attempts, handler.error.name) == ("failed", 4, ActorNotFoundError.__name__)
    assert order.wake_at is None
    stock = trade.Stock.create("main")
    stock.reserve(order.key)
    assert order.recover()
    drive()
    assert (order.status, stock.state.reserved) == ("failed", [])


def test_a_stock_that_goes_before_it_answers_is_waited_for_no_longer_than_was_said(trade: SimpleNamespace) -> None:
    """The request died with it: the wait has its deadline, and the undo finds nobody."""
    order = trade.Order.create("message o-1")
    drive(order)
    ActorRow.objects.filter(pk=trade.stock.id).delete()

    for _ in range(10):
        drive()
        advance(100)

    assert order.status == "rollback_failed"
    assert order.history()["reserved"].status == "failed"
    assert order.history()["reserve"].rollback.error.name == ActorNotFoundError.__name__
