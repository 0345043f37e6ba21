"""The server ends the session before each statement of a saga in turn: it always comes to the same end."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_rivet.models import Entry, Event, Message, WorkflowRun
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.testing import advance, drive
from tests.postgresql.server import Server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]


class EndingAt:
    """Ends the session before the n-th statement of the drives inside it."""

    def __init__(self, server: Server, n: int) -> None:
        self._server = server
        self._left = n
        self._is_ending = False

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            self._server.end_session()
        return execute(sql, params, many, context)

    @property
    def was_reached(self) -> bool:
        return self._left <= 0


def test_a_saga_ends_the_same_wherever_its_session_ends(shop: SimpleNamespace, server: Server) -> None:
    """One order is confirmed, one compensated, each once; nothing is charged, told or taken twice."""
    n, was_reached = 0, True
    while was_reached:
        n += 1
        shop.calls.clear()
        checkout = shop.Checkout.create(f"checkout-{n}")
        stock = shop.Stock.get_or_create("main")
        for order in ({"id": f"good-{n}"}, {"id": f"bad-{n}", "fails": True}):
            checkout.send("orders", order)

        # When the session ends before the n-th statement of the drive
        ending = EndingAt(server, n)
        with suppress(DatabaseFailedError, OperationalError), connection.execute_wrapper(ending):
            drive(checkout)
        connection.close()
        was_reached = ending.was_reached
        run = WorkflowRun.objects.get(actor_id=uuid.UUID(checkout.id))
        assert (run.holder, run.takeovers) == (None, 0), f"at statement {n}"
        advance(60)

        # Then another drive brings it to the same end
        assert drive(checkout) == "sleeping", f"at statement {n}"
        assert checkout.state.completed == [f"good-{n}"], f"at statement {n}"
        assert checkout.state.rejected == [f"bad-{n}"], f"at statement {n}"
        assert [order for order in stock.state.reserved if order.endswith(f"-{n}")] == [f"good-{n}"]
        assert not Message.objects.filter(status="queued").exists(), f"at statement {n}"
        told = Event.objects.filter(actor_id=uuid.UUID(checkout.id)).count()
        assert told == 1, f"at statement {n} the hook was told {told} times"
        failed = Entry.objects.filter(actor_id=uuid.UUID(checkout.id), kind="step", status="failed")
        assert [entry.path.rpartition("/")[2] for entry in failed] == ["confirm"], f"at statement {n}"
        calls = Counter(shop.calls)
        assert set(calls) == {
            *(f"{verb} {order}-{n}" for verb in ("reserve", "charge") for order in ("good", "bad")),
            *(f"{undo} bad-{n}" for undo in ("refund",)),
            f"release reserve-bad-{n}",
        }
        assert sum(calls.values()) <= len(calls) + 1, f"at statement {n}: one body at most ran again"
    assert n > 40, "the drive was interrupted all along its way"
