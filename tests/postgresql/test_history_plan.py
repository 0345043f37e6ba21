"""How PostgreSQL reads a long history, whatever it knows about the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from django_rivet import Actor, workflow
from django_rivet.store import statements
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db

STEPS = 300


class Payout(Actor):
    """Owes a compensation for each step it did."""

    class Meta:
        abstract = True

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("payouts")
        for number in range(STEPS):
            ctx.step(f"pay {number}", self.pay, rollback=self.pay_back)
        ctx.sleep("until they arrived", hours=1)

    def pay(self):
        return None

    def pay_back(self, rollback, output):
        return None


@pytest.fixture
def actor_id() -> Iterator[str]:
    with isolated_actors():

        class LongPayout(Payout):
            pass

        handle = LongPayout.create("long")
        drive(handle)
        yield handle.id


def rows_looked_at(plan: dict[str, Any]) -> float:
    """By all nodes below this one, with those that a filter threw away."""
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    return own * plan["Actual Loops"] + sum(rows_looked_at(child) for child in plan.get("Plans", []))


@pytest.mark.parametrize("analyzed", ["never", "when they were empty", "now"])
def test_reading_a_history_looks_at_each_row_a_few_times(request, analyzed):
    """On new tables, after an upgrade or a restored dump PostgreSQL takes a history for one row long."""
    with connection.cursor() as cursor:
        # Given tables with these statistics, and a history of 300 steps that owe their undo
        if analyzed == "when they were empty":
            cursor.execute("ANALYZE django_rivet_entry, django_rivet_compensation")
        actor_id = request.getfixturevalue("actor_id")
        if analyzed == "now":
            cursor.execute("ANALYZE django_rivet_entry, django_rivet_compensation")

        # When the history is read
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statements.HISTORY}", [actor_id, actor_id])
        [found] = cursor.fetchone()

    # Then not every step was compared with every other's undo
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    assert plan["Actual Rows"] > STEPS
    assert rows_looked_at(plan) < 10 * STEPS, json.dumps(plan, indent=1)
