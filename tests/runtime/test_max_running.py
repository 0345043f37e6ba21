"""``Meta.max_running``: at most so many actors of a type are driven at the same time, in the order they became due."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from django.db import connection

from django_rivet import Actor, workflow
from django_rivet.runtime import slots as ringing
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.runtime.worker import Worker
from django_rivet.testing import SimulatedCrash, advance, count_commits, crash_at, drive, isolated_actors
from tests.runtime.capped import LEASE_SECONDS, capped, claimed, driven, hints, let_go
from tests.runtime.statements import recorded

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def own_actors(settings: Any) -> Iterator[None]:
    settings.RIVET = {**settings.RIVET, "LEASE_SECONDS": LEASE_SECONDS}
    with isolated_actors():
        yield


# The number --------------------------------------------------------------------------------------


def test_no_more_than_that_many_are_driven() -> None:
    """The next one is driven as soon as one is let go."""
    actors = [capped(2).create(str(n)) for n in range(3)]
    first, second = claimed(actors[0], 2), claimed(actors[1], 2)
    assert (first is None, second is None) == (False, False)

    assert not driven(actors[2])
    let_go(first)

    assert driven(actors[2])


def test_types_do_not_count_for_each_other() -> None:
    """A subclass inherits the number, not the slots."""
    base = capped(1)
    Special: Any = type("Special", (base,), {})
    assert claimed(base.create("one")) is not None

    assert driven(Special.create("one"))


def test_a_rollback_needs_a_slot_and_holds_one() -> None:
    """It is work like any other: a worker died at the first handler, and another actor's worker has the slot."""
    cls = capped(1)
    actor, other = cls.create("one"), cls.create("two")
    drive()
    actor.send("orders", "bad")
    with crash_at(4), suppress(SimulatedCrash):  # the claim, the step's failure, the beginning of the rollback
        drive(actor)
    assert actor.status == "rolling_back"
    other.send("orders", "good")

    assert claimed(other) is None, "it holds the slot until its lease is over"
    advance(LEASE_SECONDS + 1)
    held = claimed(other)
    assert held is not None
    assert not driven(actor), "now it waits for one"
    let_go(held)
    assert driven(actor)
    assert (actor.status, actor.state.done) == ("failed", ["begin", "undone"])


def test_the_number_may_change_with_a_deploy() -> None:
    """Up and down; whoever is driven goes on."""
    cls = capped(1)
    actors = [cls.create(str(n)) for n in range(4)]
    first = claimed(actors[0])
    assert not driven(actors[1])
    capped(2)
    second = claimed(actors[1], 2)
    assert second is not None

    capped(1)
    let_go(second)
    assert not driven(actors[2])
    let_go(first)
    assert driven(actors[2])
    capped(None)
    assert driven(actors[3])


# The order ---------------------------------------------------------------------------------------


def test_those_that_wait_take_turns_in_the_order_they_became_due() -> None:
    """A slot that is free is not for whoever asks first."""
    cls = capped(1)
    actors = [cls.create(str(n)) for n in range(3)]

    assert [driven(actor) for actor in reversed(actors)] == [False, False, True]
    assert [driven(actor) for actor in reversed(actors)] == [False, True, False]


def test_a_message_makes_its_actor_due_when_it_comes() -> None:
    """Behind those that waited before."""
    cls = capped(1)
    waiting, late = cls.create("waiting"), cls.create("late")
    drive()
    new = cls.create("new")
    advance(1)
    late.send("orders", "a")
    advance(1)
    waiting.send("orders", "b")

    assert [driven(actor) for actor in (waiting, late, new)] == [False, False, True]
    assert [driven(actor) for actor in (waiting, late)] == [False, True]
    assert driven(waiting)


def test_whoever_gives_its_slot_away_goes_behind_those_that_wait() -> None:
    """At the end of a slice: else one long workflow would keep all others out."""
    cls = capped(1)
    long, other = cls.create("long"), cls.create("other")
    evicted = Worker("leaving", may_pause=False, evicted=lambda: True, keep_alive=lambda lease: nullcontext())
    drive_once(uuid.UUID(long.id), evicted)

    assert not driven(long)
    assert driven(other)
    assert driven(long)


def test_a_release_rings_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only as many as there are slots, and nobody where nobody waits."""
    rung: list[str] = []
    monkeypatch.setattr(ringing, "ring", lambda actor_id, *_: rung.append(str(actor_id)))
    cls = capped(1)
    actors = [cls.create(str(n)) for n in range(4)]

    for actor in actors:
        assert driven(actor)

    assert rung == [actor.id for actor in actors[1:]]


def test_the_sweeper_hints_only_at_those_whose_turn_it_is() -> None:
    """However many wait, they cost nothing until there is a slot; then the next one is told at the next sweep."""
    heard: list[Any] = []
    sweeper = Sweeper(lambda actor_id, *_: heard.append(actor_id), 1.0)
    cls = capped(2)
    actors = [cls.create(f"{n:02}") for n in range(20)]

    assert hints(sweeper, heard) == ["00", "01"]
    first, second = claimed(actors[0], 2), claimed(actors[1], 2)
    assert second is not None
    assert hints(sweeper, heard) == []
    let_go(first)
    assert hints(sweeper, heard) == ["02"]


def test_other_types_are_hinted_at_beside_it() -> None:
    """However many of a capped type wait in front of them."""

    class Free(Actor):
        @workflow
        def run(self, ctx): ...

    cls = capped(1)
    for n in range(3):
        cls.create(str(n))
    Free.create("free")
    heard: list[Any] = []

    assert sorted(hints(Sweeper(lambda actor_id, *_: heard.append(actor_id), 1.0), heard)) == ["0", "free"]


# In tests, and what it costs ---------------------------------------------------------------------


def test_a_test_drives_whichever_it_likes() -> None:
    """One handle out of its turn, and all of them together."""
    cls = capped(1)
    actors = [cls.create(str(n)) for n in range(3)]

    assert drive(actors[2]) == "sleeping"
    assert actors[0].status == "pending"
    drive()
    assert {actor.status for actor in actors} == {"sleeping"}


def test_it_costs_other_types_no_statement() -> None:
    """Nor a lock: the claim is one statement."""
    capped(1)
    other = capped_elsewhere().create("main")
    connection.ensure_connection()

    with recorded() as statements:
        while driven(other):
            pass

    look, claim, history, sleep_and_release = "SELECT", "UPDATE", "SELECT", ["INSERT", "UPDATE"]
    sent = [text.split()[0] for text in statements.texts]
    assert sent == [look, claim, history, *sleep_and_release, look]
    assert not any("advisory" in text for text in statements.texts)


def capped_elsewhere() -> Any:
    """A type without a limit."""

    class Free(Actor):
        @workflow
        def run(self, ctx):
            ctx.sleep("night", 100)

    return Free


def test_a_claim_stays_one_commit() -> None:
    """What is counted under the lock, and the claim, are one transaction; one that is refused writes nothing."""
    cls = capped(1)
    first, second = cls.create("first"), cls.create("second")

    with count_commits() as commits:
        assert claimed(first) is not None
        assert claimed(second) is None

    assert commits.count == 1
