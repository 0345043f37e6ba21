"""The plan is drawn before anything begins."""

from __future__ import annotations

from itertools import islice

from tests.chaos import plan


def test_a_seed_is_a_plan() -> None:
    """The same seed burns and asks for the same, and another one for something else."""
    assert plan.fires(7, 60, postgresql=True) == plan.fires(7, 60, postgresql=True)
    assert list(islice(plan.orders(7, 0), 50)) == list(islice(plan.orders(7, 0), 50))
    assert list(islice(plan.trips(7), 50)) == list(islice(plan.trips(7), 50))
    assert plan.fires(7, 60, postgresql=True) != plan.fires(8, 60, postgresql=True)


def test_each_kind_of_fire_comes_within_twenty_seconds() -> None:
    """Also in the short run that is part of the suite."""
    for seed in range(20):
        kinds = {fire.kind for fire in plan.fires(seed, 20, postgresql=True)}
        assert kinds == {*plan.WEIGHTS, *plan.POSTGRESQL_WEIGHTS}
