"""RACE-11: a loser that hangs holds locks; they are free as soon as the race is decided."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, workflow
from django_rivet.testing import drive, isolated_actors
from tests.conformance.racers import Gate

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("act", ["state", "row"])
def test_race_11_what_a_hanging_loser_has_locked_is_free_for_the_winner(act: str) -> None:
    """Its transaction is ended with it: the turn of the actor, and rows, can be had at once."""
    with isolated_actors(), Gate() as gate:

        class Order(Actor):
            class State:
                done: list[str] = []

            @workflow
            def run(self, ctx):
                won = ctx.race("order", {"charge": self.charge, "timeout": lambda branch: branch.sleep("nap", 0.2)})
                ctx.step("note", self.note)
                return won

            def charge(self, branch):
                branch.step("ask", self.ask)

            def ask(self):
                if act == "state":
                    self.state.done.append("late")
                else:
                    Group.objects.create(name="late")
                gate.hold_up()

            def note(self):
                self.state.done.append("note")

        order = Order.create("one")

        assert drive(order) == "completed"

        assert gate.is_shut
        assert order.output == ["timeout", None]
        assert order.state.done == ["note"]
        assert not Group.objects.exists()
