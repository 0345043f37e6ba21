"""Whoever watches a checkout hears of each order's moves, in the order in which they were committed."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from django_rivet.models import Event
from django_rivet.testing import SimulatedCrash
from example_project.shop.actors import CheckoutActor

pytestmark = pytest.mark.django_db(transaction=True)


def moves(checkout):
    told = Event.objects.filter(actor_id=checkout.id).order_by("seq")
    payloads = [(event.name, json.loads(event.payload)) for event in told]
    return [payload["to"] if name == "order_moved" else "failed" for name, payload in payloads]


def test_a_good_order_tells_of_its_steps(rivet):
    """Reserved and confirmed; the charge has no commit that the shop could tell it with."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "order"})

    rivet.drive(checkout)

    assert moves(checkout) == ["reserved", "confirmed"]


def test_a_compensation_tells_of_each_step_that_it_undoes(rivet):
    """Newest first, between the failure and the rejection."""
    checkout = CheckoutActor.create("main")
    checkout.send("orders", {"id": "order", "card": "declined"})

    rivet.drive(checkout)

    assert moves(checkout) == ["reserved", "failed", "refunded", "released", "rejected"]


@pytest.mark.parametrize("after", [False, True], ids=["before-the-commit", "after-the-commit"])
def test_whatever_commit_a_worker_dies_at_no_move_is_told_twice(rivet, after):
    """A move is told by the commit that makes it, or not at all."""
    number, crashed = 0, True
    while crashed:
        number += 1
        checkout = CheckoutActor.create(f"checkout-{number}")
        checkout.send("orders", {"id": f"order-{number}", "card": "declined"})
        with rivet.crash_at(number, after=after) as point, suppress(SimulatedCrash):
            rivet.drive(checkout)
        crashed = point.crashed

        rivet.drive(checkout)

        assert moves(checkout) == ["reserved", "failed", "refunded", "released", "rejected"], f"crash at {number}"
    assert number > 6
