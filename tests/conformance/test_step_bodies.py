"""STEP: what a body may be, and what it knows of itself."""

import asyncio
from functools import partial

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, CriticalError, current_step, workflow
from django_rivet.testing import SimulatedCrash

pytestmark = pytest.mark.django_db


async def bonus(amount):
    await asyncio.sleep(0)
    return amount + 1


@pytest.mark.parametrize("atomic", [True, False])
def test_step_21_an_async_body_is_awaited(rivet, atomic):
    """A coroutine function, a method, a partial: what it returns is the step's value, recorded like any other."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return [
                ctx.step("function", bonus, 1, atomic=atomic),
                ctx.step("method", self.charge, atomic=atomic, kwargs={"amount": 5}),
                ctx.step("partial", partial(bonus, 10), atomic=atomic),
            ]

        async def charge(self, amount):
            await asyncio.sleep(0)
            return f"charged {amount} as {current_step().name}"

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert order.output == [2, "charged 5 as method", 11]


def test_step_21_a_sync_and_an_async_raise_are_handled_alike(rivet, outside):
    """Retries, the kind of the failure and the recorded error do not depend on how the body is defined."""
    events = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for body in (self.sync_charge, self.async_charge):
                ctx.try_step(body.__name__, body, ValueError, max_retries=1, retry_backoff_base=0)
                ctx.try_step(f"{body.__name__} critically", body, CriticalError)

        @run.on_error
        def note(self, event):
            events.append((event.attempt, event.will_retry, str(event.error)))

        def sync_charge(self, error):
            outside.append("sync")
            raise error("declined")

        async def async_charge(self, error):
            outside.append("async")
            raise error("declined")

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == ["sync"] * 3 + ["async"] * 3
    assert events[:3] == events[3:]
    records = [(e.status, e.attempts, str(e.error)) for e in order.history()]
    assert records[:2] == records[2:]


def test_step_21_an_async_body_works_in_the_step_s_transaction(rivet):
    """What it awaits of the ORM is rolled back with a failed attempt, and commits with the good one's record."""
    endings = [ValueError("no")]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("create", self.make, retry_backoff_base=0)

        async def make(self):
            await Group.objects.acreate(name="order-1")
            if endings:
                raise endings.pop()

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert [group.name for group in Group.objects.all()] == ["order-1"]
    assert order.history()["create"].attempts == 2


@pytest.mark.parametrize("atomic", [True, False])
def test_step_21_an_async_body_has_the_actor_s_state(rivet, outside, atomic):
    """``self.state`` is there as in a sync body: to be changed where the step is atomic, else to be read."""

    class Order(Actor):
        class State:
            count: int = 7

        @workflow
        def run(self, ctx):
            ctx.step("count", self.count, atomic=atomic, max_retries=0)

        async def count(self):
            outside.append(self.state.count)
            if atomic:
                self.state.count += 1

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == [7]
    assert order.state.count == (8 if atomic else 7)


def test_step_21_a_cancelled_await_is_a_failed_attempt(rivet, outside):
    """``asyncio.CancelledError`` lies outside ``Exception``, but a task that was cancelled kills no worker."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("charge", self.charge, max_retries=1, retry_backoff_base=0)
            return [result.failure.kind, result.failure.error.name]

        async def charge(self):
            outside.append("charged")
            task = asyncio.ensure_future(asyncio.sleep(60))
            task.cancel()
            await task

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == ["charged"] * 2
    assert order.output == ["exhausted", "CancelledError"]


def test_step_21_a_body_knows_its_step_and_nothing_else_does(rivet, outside):
    """``current_step()`` gives name, attempt and eviction inside a body, and is a ``LookupError`` outside of one."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            with pytest.raises(LookupError):
                current_step()
            ctx.step("charge", self.charge, retry_backoff_base=0)
            ctx.try_block("block", lambda block: block.step("inner", self.charge, atomic=False))
            with pytest.raises(LookupError):
                current_step()

        def charge(self):
            step = current_step()
            outside.append((step.name, step.attempt, step.is_evicted()))
            if len(outside) == 1:
                raise ValueError("no")

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside == [("charge", 1, False), ("charge", 2, False), ("inner", 1, False)]
    with pytest.raises(LookupError):
        current_step()


@pytest.mark.parametrize("atomic", [True, False])
def test_step_06_the_idempotency_key_outlives_attempts_crashes_and_recover(rivet, outside, atomic):
    """Whatever makes a body run again, the outside is asked under the same key, so that it can tell."""
    endings = ["good", "critical", "crash", "retry"]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, atomic=atomic, retry_backoff_base=0)

        def charge(self):
            outside.append(current_step().idempotency_key)
            match endings.pop():
                case "retry":
                    raise ValueError("no")
                case "crash":
                    raise SimulatedCrash
                case "critical":
                    raise CriticalError("no")

    order = Order.create("one")

    with pytest.raises(SimulatedCrash):
        rivet.drive(order)
    assert rivet.drive(order) == "failed"
    order.recover()
    assert rivet.drive(order) == "completed"

    assert len(outside) == 4
    assert len(set(outside)) == 1


def test_step_06_a_compensation_changes_the_idempotency_key(rivet, outside):
    """What was undone is to happen anew, so a payment provider must not answer with the payment it took back."""
    endings = ["good", "bad"]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", self.charge, atomic=False, rollback=self.refund)
            ctx.step("ship", self.ship)

        def charge(self):
            outside.append(current_step().idempotency_key)

        def refund(self, rollback, charge):
            assert rollback.idempotency_key == current_step().idempotency_key
            outside.append(rollback.idempotency_key)

        def ship(self):
            if endings.pop() == "bad":
                raise CriticalError("no")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"
    order.recover()
    assert rivet.drive(order) == "completed"

    assert len(outside) == 3, "charged, refunded, charged"
    assert len(set(outside)) == 3


def test_step_06_no_two_steps_share_an_idempotency_key(rivet, outside):
    """Another actor, another scope or another iteration is another step to the outside."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge)
            ctx.try_block("block", lambda block: block.step("charge", self.charge))
            for turn in ctx.loop("lines"):
                turn.step("charge", self.charge)
                if turn.iteration == 1:
                    break

        def charge(self):
            outside.append(current_step().idempotency_key)

    Order.create("one")
    Order.create("two")

    rivet.drive()

    assert len(outside) == 8
    assert len(set(outside)) == 8


def test_step_21_what_a_body_returns_is_awaited_where_it_has_to_be(rivet, outside):
    """A plain function, or a decorator, may hand out a coroutine: its value counts, not the coroutine."""

    async def answer():
        outside.append("awaited")
        return 42

    def ask():
        return answer()

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("ask", ask)

    order = Order.create("one")

    assert rivet.drive(order) == "completed"
    assert (order.output, outside) == (42, ["awaited"])
