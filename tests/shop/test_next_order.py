"""An order that comes right after another is not kept waiting for the hint of the one before."""

from __future__ import annotations

import pytest

from django_rivet.runtime.sweeping import Sweeper
from example_project.shop.actors import CheckoutActor

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_checkout_that_is_due_again_gets_a_hint_at_once(rivet):
    """It was driven since the last hint, so that hint was heard, though no sweep has seen the checkout idle."""
    hinted = []
    sweeper = Sweeper(lambda actor_id, type_name, epoch: hinted.append(type_name), pause=1)
    checkout = CheckoutActor.create("main")
    sweeper.sweep()
    rivet.drive(checkout)

    checkout.send("orders", {"id": "order"})
    sweeper.sweep()
    sweeper.sweep()

    assert hinted == ["shop.CheckoutActor"] * 2
