"""Two steps that wait for each other: PostgreSQL ends one of them, which is nobody's failure."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError
from django.db.models import Value
from django.db.models.functions import Concat

from django_rivet import Actor, workflow
from django_rivet.models import Entry
from django_rivet.store.conflicts import DEADLOCK_DETECTED
from django_rivet.testing import drive, isolated_actors
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_step_that_lost_a_deadlock_is_run_again_uncharged() -> None:
    """Neither has a retry to spend on it: the work of both lands, each once, and no failure is told of."""
    # Given two orders that change the same two rows, one after the other and in opposite order
    rows = [Group.objects.create(name=name).pk for name in ("left", "right")]
    both_have_one = threading.Barrier(2)
    deadlocks: list[str | None] = []

    with isolated_actors():

        class Order(Actor):
            class State:
                changes: int = 0
                told: int = 0

            @workflow
            def run(self, ctx):
                ctx.step("change", self.change, max_retries=0, timeout=0)

            @run.on_error
            def note(self, event):
                self.state.told += 1

            def change(self):
                number = int(self.key)
                self.state.changes += 1
                self.sign(rows[number])
                if not deadlocks:
                    both_have_one.wait(60)
                try:
                    self.sign(rows[1 - number])
                except OperationalError as error:
                    deadlocks.append(getattr(error.__cause__, "sqlstate", None))
                    raise

            def sign(self, row: int) -> None:
                Group.objects.filter(pk=row).update(name=Concat("name", Value(f" {self.key}")))

        orders: list[Any] = [Order.create(str(number)) for number in range(2)]

        # When two workers drive them at the same time
        assert at_once(2, lambda number: drive(orders[number])) == ["completed", "completed"]

        # Then PostgreSQL has ended one of them, and all came out as if it had not
        assert set(deadlocks) == {DEADLOCK_DETECTED}
        assert sorted(sorted(group.name.split()) for group in Group.objects.all()) == [
            ["0", "1", "left"],
            ["0", "1", "right"],
        ]
        assert [(order.state.changes, order.state.told) for order in orders] == [(1, 0), (1, 0)]

    # And the runs that were ended are on record, without being charged
    entries = Entry.objects.all()
    assert [entry.attempts - entry.interruptions for entry in entries] == [1, 1]
    assert sum(entry.interruptions for entry in entries) == len(deadlocks)
    assert [entry.error for entry in entries] == [None, None]
