"""A body that hangs is left behind soon after its limit, and what it does to the state later is kept nowhere."""

from __future__ import annotations

import time

import pytest

from django_rivet import Actor, workflow
from tests.runtime.test_left_behind import LIMIT, Gate, drive_in_a_thread, gate

__all__ = ["gate"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_a_step_is_over_soon_after_its_limit(gate: Gate, atomic: bool) -> None:
    """The workflow knows of it seconds before the body would have ended, and while that hangs."""
    moments: list[float] = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            kind = ctx.try_step("charge", self.charge, atomic=atomic, timeout=0.5).failure.kind
            moments.append(time.monotonic())
            return kind

        def charge(self):
            moments.append(time.monotonic())
            gate.hold_up()

    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"

    assert not gate.opened.is_set(), "the body hangs still"
    assert order.output == "timeout"
    began, known = moments
    assert known - began < 4


@pytest.mark.parametrize("change", ["assigned", "nested"])
@pytest.mark.parametrize("seen", ["before", "late"])
def test_a_late_change_of_the_state_does_not_land(gate: Gate, change: str, seen: str) -> None:
    """Neither by itself nor with the next step's, whether the body had the state in its hands before or asks late."""

    class Order(Actor):
        class State:
            notes: list[str] = []

        @workflow
        def run(self, ctx):
            kind = ctx.try_step("charge", self.charge, timeout=LIMIT).failure.kind
            gate.open()
            ctx.step("note", self.note, "in time")
            return kind

        def charge(self):
            if seen == "before":
                self.note("before the cut")
            gate.hold_up_and_then(lambda: self.note("late"))
            late.append(list(self.state.notes))

        def note(self, text: str) -> None:
            if change == "assigned":
                self.state.notes = [*self.state.notes, text]
            else:
                self.state.notes.append(text)

    late: list[list[str]] = []
    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"

    assert order.output == "timeout"
    assert order.state.notes == ["in time"]
    if seen == "before":
        # What it had in its hands it could change, to no effect; on a slow machine it was cut off before it had it.
        assert late in ([["before the cut", "late"]], [])
    else:
        assert len(gate.refused) == 1, "it gets no state any more"
