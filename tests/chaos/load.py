"""Work for the workers: orders, trips, and an operator who repairs and cancels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import Error, connection

from django_rivet.exceptions import ActorBusyError, QueueFullError
from django_rivet.models import Message, WorkflowRun
from tests.chaos import plan
from tests.chaos.actors import OrderActor, StockActor, TallyActor, TripActor

MOST_WAITING = 25
"""Messages: a machine that is slow gets less work, so that all of it settles in time."""
MOST_TRIPS = 12
LOOK_SECONDS = 0.2


@dataclass
class Load:
    """What was asked for. ``sent`` and ``trips`` hold only what was accepted."""

    seed: int
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The actor's key and the order, in the order of sending per sender."""
    trips: dict[str, dict[str, Any]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    """Trips whose ``cancel()`` said yes."""
    recovered: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    _cancels: dict[str, float] = field(default_factory=dict)
    _ends: threading.Event = field(default_factory=threading.Event)
    _operator_ends: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sends while the block runs. The operator goes on until ``dismiss_operator``."""
        for number in range(plan.ORDER_ACTORS):
            OrderActor.get_or_create(f"orders-{number}")
        for number in range(plan.STOCKS):
            StockActor.get_or_create(f"stock-{number}")
        TallyActor.get_or_create("main")
        for sender in range(plan.SENDERS):
            self._spawn(partial(self._send, sender))
        self._spawn(self._travel)
        senders = list(self._threads)
        self._spawn(self._operate)
        try:
            yield
        finally:
            self._ends.set()
            for thread in senders:
                thread.join()

    def dismiss_operator(self) -> None:
        self._operator_ends.set()
        for thread in self._threads:
            thread.join()

    def unsettled(self) -> list[str]:
        """What is still to come, in words; empty: all is settled."""
        found = [f"{m.queue} {m.body[:60]} waits" for m in Message.objects.filter(status="queued")[:20]]
        for run in WorkflowRun.objects.select_related("actor").exclude(status__in=["completed", "cancelled"]):
            loops = run.actor.type.endswith(("OrderActor", "TallyActor", "StockActor"))
            if not (loops and run.status == "sleeping" and (run.waiting or run.actor.type.endswith("StockActor"))):
                found.append(f"{run.actor} is {run.status}: {run.error or ''}")
        return found

    # Below: how it is done -------------------------------------------------------------------

    def _spawn(self, target: Callable[[], None]) -> None:
        def run() -> None:
            try:
                target()
            except Exception as error:
                self.faults.append(f"the load broke: {type(error).__name__}: {error}")
            finally:
                connection.close()

        thread = threading.Thread(target=run, name="chaos-load", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _send(self, sender: int) -> None:
        for pause, key, order in plan.orders(self.seed, sender):
            if self._ends.wait(pause):
                return
            while Message.objects.filter(status="queued").count() >= MOST_WAITING:
                if self._ends.wait(LOOK_SECONDS):
                    return
            handle = OrderActor.get_or_create(key)
            self._insist(partial(handle.send, "orders", order, idempotency_key=order["id"]))
            self.sent.append((key, order))

    def _travel(self) -> None:
        active = WorkflowRun.objects.filter(actor__type=TripActor.definition.type_name)
        for number, (pause, trip) in enumerate(plan.trips(self.seed)):
            if self._ends.wait(pause):
                return
            while active.exclude(status__in=["completed", "cancelled"]).count() >= MOST_TRIPS:
                if self._ends.wait(LOOK_SECONDS):
                    return
            key = f"t{number}"
            self._insist(partial(TripActor.get_or_create, key, trip))
            self.trips[key] = trip
            if trip["end"] == "cancel":
                self._cancels[key] = time.monotonic() + trip["cancel_after"]

    def _operate(self) -> None:
        failed = WorkflowRun.objects.filter(actor__type=TripActor.definition.type_name, status="failed")
        while not self._operator_ends.wait(LOOK_SECONDS):
            for key in [k for k, at in list(self._cancels.items()) if at <= time.monotonic()]:
                del self._cancels[key]
                if self._insist(partial(TripActor.get(key).cancel, rollback=True)):
                    self.cancelled.add(key)
            for key in list(failed.values_list("actor__key", flat=True)):
                handle = TripActor.get(key)
                self._insist(handle.repair)
                if self._insist(handle.recover):
                    self.recovered.add(key)

    def _insist(self, act: Callable[[], Any]) -> Any:
        """As a client does who knows what it may repeat."""
        until = time.monotonic() + 60
        while True:
            try:
                return act()
            except (Error, ActorBusyError, QueueFullError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
