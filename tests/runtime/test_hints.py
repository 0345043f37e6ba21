"""Hints that are lost, doubled, late or wrong change nothing but latency."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest

from django_rivet.runtime.celery_tasks import drive as drive_task
from django_rivet.runtime.drive import drive
from django_rivet.runtime.sweeping import PATIENCE_SECONDS, Sweeper
from django_rivet.runtime.worker import this_worker
from django_rivet.testing import advance

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_lost_hint_is_made_up_for_by_the_sweeper(shop: SimpleNamespace) -> None:
    """It finds actors that are due: new ones, with messages, and with timers."""
    hinted: list[uuid.UUID] = []
    sweeper = Sweeper(lambda actor_id, type_name, epoch: hinted.append(actor_id), pause=1)
    new = shop.Checkout.create("new")
    waiting = shop.Checkout.create("waiting")
    drive_task(waiting.id)
    waiting.send("orders", {"id": "1"})
    idle = shop.Checkout.create("idle")
    drive_task(idle.id)

    sweeper.sweep()

    assert sorted(map(str, hinted)) == sorted([new.id, waiting.id])


def test_a_hint_is_repeated_only_after_a_while(shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full queue is not filled further with what it holds already, but a lost hint is not waited for for ever."""
    now = [100.0]
    monkeypatch.setattr("django_rivet.runtime.sweeping.time.monotonic", lambda: now[0])
    hinted: list[uuid.UUID] = []
    sweeper = Sweeper(lambda actor_id, type_name, epoch: hinted.append(actor_id), pause=1)
    shop.Checkout.create("main")

    counts = []
    for _ in range(3):
        sweeper.sweep()
        counts.append(len(hinted))
        now[0] += PATIENCE_SECONDS / 2

    assert counts == [1, 1, 2]


def test_a_queue_that_nobody_works_off_stops_growing(shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due for hours while no worker is free gets a handful of hints and not thousands."""
    now = [100.0]
    monkeypatch.setattr("django_rivet.runtime.sweeping.time.monotonic", lambda: now[0])
    queue: list[uuid.UUID] = []
    sweeper = Sweeper(
        lambda actor_id, type_name, epoch: queue.append(actor_id), pause=1, waiting=lambda name: len(queue)
    )
    actors = [shop.Checkout.create(f"actor-{n}") for n in range(3)]

    for _ in range(6 * 60):
        sweeper.sweep()
        now[0] += 10

    assert {queue.count(uuid.UUID(actor.id)) for actor in actors} <= set(range(6, 12))


def test_hints_that_a_queue_has_lost_are_made_up_for_within_seconds(
    shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that is shorter than what was put into it was flushed, or worked off."""
    now = [100.0]
    monkeypatch.setattr("django_rivet.runtime.sweeping.time.monotonic", lambda: now[0])
    queue: list[uuid.UUID] = []
    sweeper = Sweeper(
        lambda actor_id, type_name, epoch: queue.append(actor_id), pause=1, waiting=lambda name: len(queue)
    )
    for number in range(3):
        shop.Checkout.create(f"actor-{number}")
    for _ in range(20):
        sweeper.sweep()
        now[0] += 100

    queue.clear()
    now[0] += PATIENCE_SECONDS
    sweeper.sweep()

    assert len(queue) == 3


def test_hints_that_nobody_has_heard_are_remembered_beyond_one_look(
    shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where more is due than one look brings, another look brings others; none gets a hint too many for that."""
    from django_rivet.runtime import sweeping
    from django_rivet.store.runs import due_actors

    monkeypatch.setattr(sweeping, "BATCH", 1)
    for number in range(2):
        shop.Checkout.create(f"actor-{number}")
    looks = due_actors(2) * 3
    monkeypatch.setattr("django_rivet.store.runs.due_actors", lambda limit: [looks.pop()])
    hinted: list[uuid.UUID] = []
    sweeper = Sweeper(lambda actor_id, type_name, epoch: hinted.append(actor_id), pause=1)

    for _ in range(6):
        sweeper.sweep()

    assert len(hinted) == len(set(hinted)) == 2


def test_a_sweep_ends_at_the_first_hint_that_the_broker_refuses(shop: SimpleNamespace) -> None:
    """A broker that hangs costs one time-out and not a thousand; what got no hint gets it with the next sweep."""
    for number in range(3):
        shop.Checkout.create(f"actor-{number}")
    answers = [True, False, True, True]
    asked: list[uuid.UUID] = []

    def hint(actor_id: uuid.UUID, type_name: str, epoch: int) -> bool:
        asked.append(actor_id)
        return answers.pop(0)

    sweeper = Sweeper(hint, pause=1)

    assert [sweeper.sweep() for _ in range(3)] == [1, 2, 0]
    assert len(asked) == 4
    assert len(set(asked)) == 3


def test_a_hint_for_an_actor_that_is_not_due_does_nothing(shop: SimpleNamespace) -> None:
    """It costs a look, not a drive."""
    actor = shop.Checkout.create("main")
    drive_task(actor.id)
    epoch = actor_epoch(actor.id)

    drive_task(actor.id)
    drive_task(actor.id)

    assert actor_epoch(actor.id) == epoch


def test_a_hint_for_an_actor_that_is_gone_does_nothing() -> None:
    """Hints may outlive what they speak of."""
    drive_task(str(uuid.uuid4()))


def test_hints_in_any_order_and_number_do_the_work_once(shop: SimpleNamespace) -> None:
    """The database says what is due."""
    actors = [shop.Checkout.create(f"actor-{n}") for n in range(3)]
    for actor in actors:
        actor.send("orders", {"id": actor.key})

    for actor in [*reversed(actors), *actors, *actors]:
        drive_task(actor.id)

    assert [actor.state.completed for actor in actors] == [["actor-0"], ["actor-1"], ["actor-2"]]
    assert shop.calls.count("charge actor-1") == 1


def test_a_held_actor_is_not_driven_by_a_second_worker_until_its_lease_is_over(shop: SimpleNamespace) -> None:
    """One worker at a time drives an actor."""
    from django_rivet.store.runs import claim

    actor = shop.Checkout.create("main")
    actor.send("orders", {"id": "1"})
    assert claim(uuid.UUID(actor.id), "one that dies", 10) is not None

    assert not drive(uuid.UUID(actor.id), this_worker())
    advance(11)
    assert drive(uuid.UUID(actor.id), this_worker())

    assert actor.state.completed == ["1"]


def actor_epoch(actor_id: str) -> int:
    from django_rivet.models import WorkflowRun

    return WorkflowRun.objects.get(pk=actor_id).epoch


def test_the_sweeper_forgets_events_that_are_too_old(shop: SimpleNamespace) -> None:
    """They are kept for clients that come back, and not for ever."""
    from django_rivet.models import Event

    actor = shop.Checkout.create("main")
    actor.send("orders", {"id": "1", "fails": True})
    drive_task(actor.id)
    sweeper = Sweeper(lambda actor_id, type_name, epoch: None, pause=1)

    sweeper.tidy()
    assert Event.objects.count() == 1

    advance(3601)
    Sweeper(lambda actor_id, type_name, epoch: None, pause=1).tidy()
    assert Event.objects.count() == 0
