"""What a hot path costs, counted."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from django_rivet import Actor, Queue, workflow
from django_rivet.testing import count_commits, drive, isolated_actors
from tests.runtime.statements import recorded

pytestmark = pytest.mark.django_db(transaction=True)


def test_nine_orders_cost_a_claim_four_commits_each_and_a_release(shop: SimpleNamespace) -> None:
    """Receive and checkpoint ride with the first step; the charge's start and record are two of the four."""
    actor = shop.Checkout.create("main")
    shop.Stock.get_or_create("main")
    for n in range(9):
        actor.send("orders", {"id": f"order-{n}"})

    with count_commits() as commits:
        drive(actor)

    assert commits.count == 1 + 9 * 4 + 1


def test_receiving_rides_in_the_commit_of_the_first_atomic_step_after_it() -> None:
    """A message costs no commit of its own."""
    with isolated_actors():

        class Counter(Actor):
            class State:
                count: int = 0

            ticks = Queue(int)

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("ticks"):
                    turn.step("add", self.add, turn.queue.next("tick").body)

            def add(self, number):
                self.state.count += number

        counter = Counter.create("main")
        for number in range(5):
            counter.send("ticks", number)

        with count_commits() as commits:
            drive(counter)

        assert (counter.state.count, commits.count) == (10, 1 + 5 + 1)


def test_what_is_noted_last_rides_in_the_commit_of_the_release() -> None:
    """A sleep's beginning, and the end of the workflow, cost the release and nothing else."""
    with isolated_actors():

        class Sleeper(Actor):
            @workflow
            def run(self, ctx):
                ctx.step("before", int)
                ctx.sleep("night", 60)
                ctx.now("morning")

        sleeper = Sleeper.create("main")

        with count_commits() as commits:
            drive(sleeper)

        assert commits.count == 3, "claim, step, release with the sleep"


def test_a_replay_reads_the_history_in_one_statement_and_writes_nothing_but_claim_and_release() -> None:
    """What a pass costs does not grow with what was done before."""
    with isolated_actors():

        class Long(Actor):
            ready = Queue()

            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("all")
                for number in range(50):
                    ctx.step(f"step-{number}", int, rollback=undo)
                ctx.queue.next("wait", names=["ready"])

        actor = Long.create("main")
        drive(actor)
        actor.send("ready")
        connection.ensure_connection()

        with recorded() as statements:
            drive(actor)

        assert statements.reads("django_rivet_entry") == 1
        written = statements.writes("django_rivet_entry") + statements.writes("django_rivet_compensation")
        assert written == 2, "the received message, and that what is owed is settled: both with the release"


@pytest.mark.parametrize(
    ("body", "limit"),
    [("nothing", 2), ("state", 4)],
)
def test_an_atomic_step_costs_few_statements(body: str, limit: int) -> None:
    """Record and fence; with state, the turn's lock and its save as well. BEGIN and COMMIT are not counted.

    On PostgreSQL a body that asks the database something also sets the limit that cuts a frozen worker off.
    """
    if body == "state" and connection.vendor == "postgresql":
        limit += 1
    with isolated_actors():

        class Stepper(Actor):
            class State:
                count: int = 0

            @workflow
            def run(self, ctx):
                bodies: dict[str, Callable[[], Any]] = {"nothing": int, "state": self.add}
                for number in range(20):
                    ctx.step(f"step-{number}", bodies[body])

            def add(self):
                self.state.count += 1

        stepper = Stepper.create("main")
        drive_with_one_step_less = 5  # find the actor, claim it, read its history; release it; look again

        with recorded() as statements:
            drive(stepper)

        assert statements.count - drive_with_one_step_less <= 20 * limit + 2


def undo(rollback: object, output: object) -> None:
    """A handler that is never called."""
