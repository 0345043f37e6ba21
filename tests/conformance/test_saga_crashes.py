"""SAGA: workers die in the middle of orders, and at every commit of the whole checkout, forward and back."""

from contextlib import suppress
from itertools import count

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, CriticalError, Queue, action, current_step, workflow
from django_rivet.testing import SimulatedCrash, crash_at, drive
from tests.conformance.undoable import shop

# Of the module: a mark of a function itself goes before that of its parameter.
pytestmark = pytest.mark.django_db


class Gateway:
    """A payment service that knows a repeated call by its key."""

    def __init__(self):
        self.charged: dict[str, str] = {}
        self.refunded: dict[str, str] = {}

    def charge(self, order, key):
        self.charged[key] = order
        if order == "declined":
            raise CriticalError("declined")
        return f"charge-{order}"

    def refund(self, order, key):
        self.refunded[key] = order


def checkout(gateway):
    """The checkout of the README and the inventory that it reserves from."""

    class Inventory(Actor):
        class State:
            reserved: list[str] = []

        @action
        def reserve(self, order: str) -> str:
            self.state.reserved.append(order)
            return order

        @action
        def release(self, order: str) -> None:
            self.state.reserved.remove(order)

    class Checkout(Actor):
        class State:
            completed: int = 0
            rejected: list[str] = []
            events: list[str] = []

        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("checkout", history_prune_interval=1):
                order = turn.queue.next("wait-order", names=["orders"]).body
                result = turn.try_block("order", lambda saga, order=order: self.take(saga, order), rollback=True)
                if not result.ok:
                    turn.step("reject", self.reject, order, result.failure.error.message)

        @run.on_error
        def note_error(self, event):
            self.state.events.append(f"{event.kind} {event.step_name}")

        def take(self, saga, order):
            saga.rollback_checkpoint("order")
            saga.step("reserve", self.reserve, order, rollback=self.release)
            saga.step("charge", self.charge, order, atomic=False, rollback=self.refund, rollback_when="attempted")
            saga.step("confirm", self.confirm, order)

        def reserve(self, order):
            return Inventory.get_or_create("main").reserve(order)

        def release(self, rollback, reservation):
            Inventory.get("main").release(reservation)

        def charge(self, order):
            return gateway.charge(order, current_step().idempotency_key)

        def refund(self, rollback, charge):
            gateway.refund(rollback.args[0], rollback.idempotency_key)

        def confirm(self, order):
            if order == "sold out":
                raise CriticalError("sold out")
            Group.objects.create(name=f"invoice {order}")
            self.state.completed += 1

        def reject(self, order, reason):
            self.state.rejected.append(f"{order}: {reason}")

    return Checkout, Inventory


@pytest.mark.parametrize("transaction", [False, pytest.param(True, marks=pytest.mark.django_db(transaction=True))])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_saga_08_the_checkout_survives_a_crash_at_every_commit(after, transaction):
    """Orders are completed or rejected once each, and no reservation or charge is left without its order."""
    gateway = Gateway()
    desks, inventory = checkout(gateway)

    for n in count(1):
        desk = desks.create(str(n))
        for order in ("book", "declined", "sold out", "pen"):
            desk.send("orders", order)

        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive(desk)

        assert drive(desk) == "sleeping", n
        assert desk.state.completed == 2, n
        assert desk.state.rejected == ["declined: declined", "sold out: sold out"], n
        assert desk.state.events == ["step charge", "step confirm"], n
        assert inventory.get("main").state.reserved == ["book", "pen"], n
        assert sorted(gateway.charged.values()) == ["book", "declined", "pen", "sold out"], n
        assert sorted(gateway.refunded.values()) == ["declined", "sold out"], n
        assert Group.objects.filter(name__startswith="invoice").count() == 2, n
        Group.objects.all().delete()
        inventory.get("main").release("book")
        inventory.get("main").release("pen")
        gateway.charged.clear()
        gateway.refunded.clear()
        if not point.crashed:
            assert n > 20
            return


def test_saga_06_a_crash_between_effect_and_record_repeats_the_call_under_the_same_key(outside):
    """The outside can tell a repetition: step and handler have a key each that stays over crashes and retries."""
    deaths = ["charge", "refund"]

    class Shop(shop(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("charge", self.charge, "order-1", atomic=False, rollback=self.refund)
            ctx.step("confirm", self.confirm, "bad-1")

        def charge(self, order):
            self.call("charge", current_step().idempotency_key)

        def refund(self, rollback, charge):
            self.call("refund", rollback.idempotency_key)

        def call(self, what, key):
            outside.append((what, key))
            if what in deaths:
                deaths.remove(what)
                raise SimulatedCrash

    one, other = Shop.create("one"), Shop.create("other")

    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            drive(one)
    assert (drive(one), drive(other)) == ("failed", "failed")

    charge, charged_again, refund, refunded_again, *of_other = outside
    assert charge == charged_again
    assert refund == refunded_again
    assert len({key for _, key in outside}) == 4, "two actors, a step and a handler each"
    assert [what for what, _ in of_other] == ["charge", "refund"]


def test_saga_08_a_crash_in_the_middle_of_compensations_repeats_none_that_ended(outside):
    """In a scoped saga as well: the handler that was cut off runs again, and then the older ones."""

    class Shop(shop(outside)):
        @workflow
        def run(self, ctx):
            return ctx.try_block("saga", self.saga, rollback=True).failure.name

        def saga(self, saga):
            saga.rollback_checkpoint("order")
            saga.step("pack", self.reserve, "box", rollback=self.unpack)
            saga.step("reserve", self.reserve, "book", rollback=self.release_or_die)
            saga.step("charge", self.charge, "visa", rollback=self.refund)
            saga.step("confirm", self.confirm, "bad")

        def unpack(self, rollback, reservation):
            Group.objects.create(name="unpacked")

        def release_or_die(self, rollback, reservation):
            self.release(rollback, reservation)
            if outside.count("release reservation-book") == 1:
                raise SimulatedCrash

    order = Shop.create("one")

    with pytest.raises(SimulatedCrash):
        drive(order)
    assert drive(order) == "completed"

    assert outside[3:] == ["refund charge-visa", "release reservation-book", "release reservation-book"]
    assert Group.objects.get().name == "unpacked"
    assert order.output == "confirm"
