"""What a deploy took away, or made unreadable, is reported, and comes back with the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from django_rivet import Actor, CriticalError, InvalidInputError, workflow
from django_rivet.models import Entry
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db


def test_an_actor_whose_workflow_was_missing_for_a_while_goes_on_with_it() -> None:
    """The deploy without it makes the actor `diverged`, which is tried again: its timers are not forgotten."""
    log: list[str] = []

    def deploy() -> type[Actor]:
        class Order(Actor):
            @workflow
            def run(self, ctx):
                ctx.step("charge", log.append, "charged")
                ctx.sleep("night", 60)
                ctx.step("ship", log.append, "shipped")

        return Order

    with isolated_actors():
        order = deploy().create("one")
        assert drive(order) == "sleeping"
    advance(61)

    with isolated_actors():

        class Order(Actor):
            """Somebody forgot the decorator."""

        drive()
        assert Order.get("one").status == "diverged"
        assert "does not declare a workflow" in str(Order.get("one").error)
    advance(300)

    with isolated_actors():
        order = deploy().get("one")
        drive()

        assert order.status == "completed"
        assert log == ["charged", "shipped"]


def test_a_block_whose_handler_is_gone_waits_for_it_in_rollback_failed() -> None:
    """Nothing is taken for undone; with the handler back, `recover()` undoes it and the workflow goes on."""
    log: list[str] = []

    class Base(Actor[Any]):
        class Meta:
            abstract = True

        def run_trip(self, ctx):
            return ctx.try_block("stay", self.stay, rollback=True).failure.error.message

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("room", log.append, "room", rollback=getattr(self, "give_back", None))
            block.sleep("night", 60)
            block.step("breakfast", self.fail)

        def fail(self):
            raise CriticalError("no eggs")

    def deploy() -> type[Actor]:
        class Trip(Base):
            @workflow
            def run(self, ctx):
                return self.run_trip(ctx)

            def give_back(self, rollback, output):
                log.append("gave back the room")

        return Trip

    with isolated_actors():
        assert drive(deploy().create("one")) == "sleeping"
    advance(61)

    with isolated_actors():

        class Trip(Base):
            @workflow
            def run(self, ctx):
                return self.run_trip(ctx)

        trip = Trip.get("one")
        assert drive(trip) == "rollback_failed"
        assert trip.error.name == "RollbackHandlerError"
        assert log == ["room"]

    with isolated_actors():
        trip = deploy().get("one")
        trip.recover()

        assert drive(trip) == "completed"
        assert trip.output == "no eggs"
        assert log == ["room", "gave back the room"]


def test_a_state_that_does_not_fit_the_class_any_more_hides_nothing_else() -> None:
    """Status, error and output can be read; only who asks for the state hears that it does not fit."""
    with isolated_actors():

        class Order(Actor):
            class State:
                total: str = "much"

            @workflow
            def run(self, ctx):
                return "done"

        drive(Order.create("one"))

    with isolated_actors():

        class Order(Actor):
            class State:
                total: int = 0

            @workflow
            def run(self, ctx):
                return "done"

        order = Order.get("one")
        seen = order.snapshot()

        assert (seen.status, seen.output, seen.error) == ("completed", "done", None)
        assert order.status == "completed"
        with pytest.raises(InvalidInputError, match=r"state\.total"):
            _ = order.state


def test_a_history_that_cannot_be_read_stops_the_actor_and_says_so(shop: SimpleNamespace) -> None:
    """Damaged, or written by newer code: nothing is done on top of it, and it goes on once it can be read."""
    actor = shop.Checkout.create("main")
    actor.send("orders", {"id": "1"})
    drive(actor)
    Entry.objects.filter(actor_id=actor.id, path="checkout").update(status="of the future")
    actor.send("orders", {"id": "2"})

    assert drive(actor) == "diverged"
    assert "of the future" in actor.error.message
    assert actor.state.completed == ["1"]

    Entry.objects.filter(actor_id=actor.id, path="checkout").update(status="running")
    advance(60)
    assert drive(actor) == "sleeping"
    assert actor.state.completed == ["1", "2"]
