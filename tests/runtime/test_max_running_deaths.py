"""``Meta.max_running`` and workers that die while they hold a slot, or only seem to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from django_rivet.engine.suspend import LeaseLost
from django_rivet.models import WorkflowRun
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.store import journal, runs
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors
from tests.runtime.capped import LEASE_SECONDS, capped, claimed, driven, hints

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def own_actors(settings: Any) -> Iterator[None]:
    settings.RIVET = {**settings.RIVET, "LEASE_SECONDS": LEASE_SECONDS}
    with isolated_actors():
        yield


def test_the_slot_of_a_worker_that_died_is_free_when_its_lease_is_over() -> None:
    """For the next in the line, before the actor that it left; that one counts the death once."""
    cls = capped(1)
    dead, next_one = cls.create("dead"), cls.create("next")
    claimed(dead)
    heard: list[Any] = []
    sweeper = Sweeper(lambda actor_id, *_: heard.append(actor_id), 1.0)
    assert hints(sweeper, heard) == []

    advance(LEASE_SECONDS + 1)

    assert hints(sweeper, heard) == ["next"]
    assert not driven(dead)
    assert WorkflowRun.objects.get(pk=dead.id).takeovers == 1
    assert driven(next_one)
    assert driven(dead)
    assert WorkflowRun.objects.get(pk=dead.id).cut_off is False, "it was driven, and let go"


def test_a_worker_that_was_only_slow_does_not_come_back_on_top() -> None:
    """Its slot is another's: neither its heartbeat nor a commit of its own brings the lease back."""
    cls = capped(1)
    slow, next_one = cls.create("slow"), cls.create("next")
    lost = claimed(slow)
    assert lost is not None
    advance(LEASE_SECONDS + 1)
    assert claimed(next_one) is not None

    assert not runs.renew(lost.lease)
    with pytest.raises(LeaseLost):
        journal.fence(lost.lease, "running")


def test_a_worker_that_comes_back_in_time_keeps_its_slot() -> None:
    """Nobody has needed it yet."""
    cls = capped(1)
    slow, next_one = cls.create("slow"), cls.create("next")
    late = claimed(slow)
    assert late is not None
    advance(LEASE_SECONDS + 1)

    assert runs.renew(late.lease)

    assert claimed(next_one) is None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_commit_leaves_no_slot_taken(after: bool) -> None:
    """All of them end their work, whoever dies where."""
    cls = capped(1)
    for n in range(1, 7):
        actors = [cls.create(f"{n} {name}") for name in ("one", "two", "three")]
        for actor in actors:
            actor.send("orders", "a")
        with crash_at(n, after) as point, suppress(SimulatedCrash):
            drive()
        assert point.crashed

        drive()

        assert [actor.state.done for actor in actors] == [["begin", "a"]] * 3
