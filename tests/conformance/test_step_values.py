"""STEP: what a step gives back, and when."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.contrib.auth.models import Group
from django.test import override_settings

from django_rivet import Actor, workflow

pytestmark = pytest.mark.django_db


def test_step_01_a_body_runs_once_and_its_value_is_the_workflow_s_output(rivet, outside):
    """One step: its body runs once, its value is the step's, and the workflow is completed with it."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge)

        def charge(self):
            outside.append("charged")
            return "ch-1"

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == ["charged"]
    assert order.output == "ch-1"
    assert str(order.history()) == "charge  step  completed  1 attempt"


def test_step_02_a_completed_step_gives_its_recorded_value_on_every_later_pass(rivet, outside):
    """A later pass gets the recorded value, and the body is not called again."""
    seen = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            seen.append(ctx.step("number", self.number))
            ctx.sleep("a while", 60)
            return seen[-1]

        def number(self):
            outside.append("numbered")
            return len(outside)

    order = Order.create("one")

    assert rivet.drive(order) == "sleeping"
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert seen == [1, 1]
    assert outside == ["numbered"]
    assert order.output == 1


def test_step_03_a_body_that_returns_nothing_is_complete_too(rivet, outside):
    """Completion is the record's status, not the presence of a value: nothing is run again for the lack of one."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            assert ctx.step("notify", lambda: outside.append("notified")) is None
            ctx.sleep("a while", 60)

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert outside == ["notified"]
    assert order.history()["notify"].status == "completed"


def test_step_04_steps_run_in_order_and_use_each_other_s_values(rivet, outside):
    """Steps called one after another run one after another, each with what the earlier ones gave back."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            price = ctx.step("price", self.note, "price", 20)
            fee = ctx.step("fee", self.note, "fee", price // 10)
            return ctx.step("total", self.note, "total", price + fee)

        def note(self, what, value):
            outside.append((what, value))
            return value

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == [("price", 20), ("fee", 2), ("total", 22)]
    assert order.output == 22
    assert [entry.path for entry in order.history()] == ["price", "fee", "total"]


def test_step_07_the_record_is_complete_and_written_before_the_value_is_handed_out(rivet):
    """When the workflow gets the value, the database already says: this output, completed, no error, ended then."""
    before, after = [], []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge)
            after.extend(order.history())

        def charge(self):
            before.extend(order.history())
            return "ch-1"

    order = Order.create("one")

    rivet.drive(order)

    assert before == []
    [entry] = after
    assert (entry.path, entry.status, entry.output, entry.error) == ("charge", "completed", "ch-1", None)
    assert entry.started_at <= entry.ended_at <= rivet.now()


def test_step_20_a_value_comes_back_as_its_record_has_it_on_the_first_run_too(rivet):
    """Differs on purpose from the reference (CBOR): JSON and a few more types; the first run sees the stored copy."""
    given = {"items": ("a", "b"), "at": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("9.90"), "raw": b"\x00"}
    seen = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            value = ctx.step("load", lambda: given)
            seen.append(value)
            ctx.sleep("a while", 60)

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    rivet.drive(order)

    assert seen[0] is not given
    assert seen == [{**given, "items": ["a", "b"]}] * 2
    assert type(seen[0]["price"]) is Decimal


@pytest.mark.parametrize("atomic", [True, False])
def test_step_20_a_value_that_cannot_be_stored_fails_the_step_at_once(rivet, outside, atomic):
    """Differs on purpose from the reference: a retry would give the same value, so there is none, and nothing stays."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("load", self.load, atomic=atomic)
            return [result.ok, result.failure.kind, result.failure.attempts, result.failure.error.name]

        def load(self):
            outside.append("ran")
            if atomic:
                Group.objects.create(name="written")
            return {"order": {"lines": [object()]}}

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == ["ran"]
    assert order.output == [False, "critical", 1, "OutputNotSerializableError"]
    assert "$.order.lines[0]" in order.history()["load"].error.message
    assert not Group.objects.exists()


@override_settings(RIVET={"MAX_OUTPUT_BYTES": 1000})
def test_step_20_a_value_that_is_too_large_fails_the_step_at_once(rivet, outside):
    """A value beyond MAX_OUTPUT_BYTES is refused like one of a wrong type; one that just fits is kept."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("fits", lambda: "x" * 998)
            ctx.step("too large", self.too_large)

        def too_large(self):
            outside.append("ran")
            return "x" * 999

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == ["ran"]
    assert order.error.name == "OutputNotSerializableError"
    assert "MAX_OUTPUT_BYTES" in order.error.message
    assert order.history()["fits"].status == "completed"
