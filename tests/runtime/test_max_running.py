"""``Meta.max_running``: at most so many actors of a type are driven at the same time, in the order they became due."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from django.db import connection

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.engine.suspend import LeaseLost
from django_rivet.models import WorkflowRun
from django_rivet.runtime import slots as ringing
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.runtime.worker import Worker
from django_rivet.store import journal, runs
from django_rivet.store.slots import Cap
from django_rivet.testing import SimulatedCrash, advance, count_commits, crash_at, drive, isolated_actors
from tests.runtime.statements import recorded

pytestmark = pytest.mark.django_db(transaction=True)

WORKER = Worker("a worker", may_pause=False, keep_alive=lambda lease: nullcontext())
LEASE_SECONDS = 10


@pytest.fixture(autouse=True)
def own_actors() -> Iterator[None]:
    with isolated_actors():
        yield


def capped(limit: int | None = 1) -> Any:
    """Of these so many may run; again under the same name, it is the class of the next deploy."""

    class Capped(Actor):
        class Meta:
            max_running = limit

        class State:
            done: list[str] = []

        orders = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.step("begin", self.do, "begin", rollback=self.undo)
            for turn in ctx.loop("orders"):
                order = turn.queue.next("order", names=["orders"]).body
                turn.step("do", self.do, order)

        def do(self, order):
            if order == "bad":
                raise CriticalError("a bad order")
            self.state.done.append(order)

        def undo(self, rollback, output):
            self.state.done.append("undone")

    return Capped


def claimed(actor: Any, limit: int = 1, **options: Any) -> runs.Claim | None:
    """Another worker takes the actor, if it may."""
    return runs.claim(uuid.UUID(actor.id), "another", LEASE_SECONDS, cap=Cap(actor.type, limit), **options)


def let_go(claim: runs.Claim | None, status: str = "sleeping") -> None:
    assert claim is not None
    journal.release(claim.lease, journal.Release(status))


def driven(actor: Any) -> bool:
    return drive_once(uuid.UUID(actor.id), WORKER)


def hints(sweeper: Sweeper, heard: list[Any]) -> list[str]:
    """Keys of those whom one sweep hints at."""
    del heard[:]
    sweeper.sweep()
    ids = {str(row.pk): row.actor.key for row in WorkflowRun.objects.select_related("actor")}
    return [ids[str(actor_id)] for actor_id in heard]


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
    monkeypatch.setattr(ringing, "ring", lambda actor_id, type_name: rung.append(str(actor_id)))
    cls = capped(1)
    actors = [cls.create(str(n)) for n in range(4)]

    for actor in actors:
        assert driven(actor)

    assert rung == [actor.id for actor in actors[1:]]


def test_the_sweeper_hints_only_at_those_whose_turn_it_is() -> None:
    """However many wait, they cost nothing until there is a slot; then the next one is told at the next sweep."""
    heard: list[Any] = []
    sweeper = Sweeper(lambda actor_id, type_name: heard.append(actor_id), 1.0)
    cls = capped(2)
    actors = [cls.create(f"{n:02}") for n in range(20)]

    assert hints(sweeper, heard) == ["00", "01"]
    first, second = claimed(actors[0], 2), claimed(actors[1], 2)
    assert second is not None
    assert hints(sweeper, heard) == []
    let_go(first)
    assert hints(sweeper, heard) == ["02"]
    assert hints(sweeper, heard) == []


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

    assert sorted(hints(Sweeper(lambda actor_id, _: heard.append(actor_id), 1.0), heard)) == ["0", "free"]


# Workers that die --------------------------------------------------------------------------------


def test_the_slot_of_a_worker_that_died_is_free_when_its_lease_is_over() -> None:
    """For the next in the line, before the actor that it left; that one counts the death once."""
    cls = capped(1)
    dead, next_one = cls.create("dead"), cls.create("next")
    claimed(dead)
    heard: list[Any] = []
    sweeper = Sweeper(lambda actor_id, type_name: heard.append(actor_id), 1.0)
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

    look_and_claim, history, sleep_and_release = ["SELECT", "UPDATE"], ["SELECT"], ["INSERT", "UPDATE"]
    sent = [text.split()[0] for text in statements.texts]
    assert sent == [*look_and_claim, *history, *sleep_and_release, *look_and_claim]
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
