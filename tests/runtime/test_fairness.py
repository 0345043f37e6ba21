"""An actor that always has something to do leaves room for the others."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import current_app
from celery.signals import task_received
from django.db import transaction

from django_rivet import Actor, Queue, workflow
from django_rivet.runtime import bell, celery_tasks
from django_rivet.runtime.bell import TASK
from django_rivet.runtime.celery_tasks import drive as drive_task
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.store import runs
from django_rivet.store.runs import Hint
from django_rivet.testing import advance, drive, isolated_actors, reset_clock
from tests.journeys.workers import eventually
from tests.runtime.statements import recorded
from tests.runtime.test_hints import actor_epoch

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def greedy() -> Iterator[Any]:
    """An actor that sends itself a message with each that it takes."""
    with isolated_actors():

        class Greedy(Actor):
            class State:
                turns: int = 0

            again = Queue(int)

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("turns"):
                    turn.step("next", self.next, turn.queue.next("wait", names=["again"]).body)

            def next(self, number):
                self.state.turns += 1
                Greedy.get(self.key).send("again", number + 1)

        yield Greedy
    reset_clock()


@pytest.fixture
def modest() -> Iterator[Any]:
    """An actor that is done after one step."""
    with isolated_actors():

        class Modest(Actor):
            @workflow
            def run(self, ctx):
                ctx.step("only", int)

        yield Modest


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> deque[str]:
    """Hints in the order in which a worker will take them."""
    hints: deque[str] = deque()
    monkeypatch.setattr(bell, "has_broker", lambda app: True)
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **options: hints.append(args[0]))
    return hints


def sweep() -> list[str]:
    """The actors that a fresh sweeper hints at, in its order."""
    hinted: list[str] = []
    Sweeper(lambda actor_id, type_name, epoch: hinted.append(str(actor_id)), pause=1).sweep()
    return hinted


def test_an_actor_goes_behind_the_others_after_its_slice(
    greedy: Any, modest: Any, broker: deque[str], settings: Any
) -> None:
    """It would go on for ever: with one worker, all the others are done after one slice of it."""
    settings.RIVET = {"SLICE_SECONDS": 0.2}
    endless = greedy.create("main")
    endless.send("again", 1)
    others = [modest.create(f"other-{n}") for n in range(5)]
    assert bell.drain(10)
    order = list(dict.fromkeys(broker))
    assert order == [endless.id, *(other.id for other in others)]
    broker.clear()

    drive_task(order[0])
    for hint in order[1:]:
        drive_task(hint)

    assert [other.status for other in others] == ["completed"] * 5
    assert endless.state.turns > 0
    assert bell.drain(10)
    assert broker[-1] == endless.id, "and it is not forgotten"


def test_what_came_in_during_a_slice_gives_no_second_one(
    greedy: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message rings: as many slices as messages would leave nothing to the others."""
    settings.RIVET = {"SLICE_SECONDS": 0.2}
    hints: list[dict[str, int]] = []
    monkeypatch.setattr(bell, "has_broker", lambda app: True)
    monkeypatch.setattr(bell, "LULL_SECONDS", 0)
    monkeypatch.setattr(current_app, "send_task", lambda name, args, kwargs, **options: hints.append(kwargs))
    endless = greedy.create("main")
    endless.send("again", 1)
    assert bell.drain(10)
    hints.clear()
    drive_task(endless.id)
    assert bell.drain(10)
    epoch = actor_epoch(endless.id)

    during = [hint for hint in hints if "message" in hint]
    (after,) = [hint for hint in hints if "epoch" in hint]
    assert during, "the slice's messages rang"
    for hint in during:
        drive_task(endless.id, **hint)
    assert actor_epoch(endless.id) == epoch

    drive_task(endless.id, **after)
    drive_task(endless.id, **after)
    assert actor_epoch(endless.id) == epoch + 1, "doubled, it is void as well"


def test_a_hint_for_a_message_counts_while_the_actor_waits_for_it(greedy: Any) -> None:
    """And no longer than until it is handled."""
    waiting = greedy.create("main")
    drive(waiting)
    first = waiting.send("again", 1)

    assert runs.look(uuid.UUID(waiting.id), Hint(message=first.id)) is not None
    assert runs.look(uuid.UUID(waiting.id), Hint(message=first.id + 1000)) is None


def test_the_sweeper_hints_first_at_who_has_been_due_the_longest(greedy: Any, modest: Any, settings: Any) -> None:
    """Also at an actor whose messages have lain there since before its last slice: that was its turn."""
    settings.RIVET = {"SLICE_SECONDS": 0.05}
    endless = greedy.create("main")
    for number in range(3):
        endless.send("again", number)
    others = []
    for n in range(5):
        advance(1)
        others.append(modest.create(f"other-{n}"))
    assert sweep() == [endless.id, *(other.id for other in others)]

    advance(1)
    drive_task(endless.id)

    assert sweep() == [*(other.id for other in others), endless.id]


def test_the_order_is_kept_where_there_are_more_than_one_sweep_takes(
    modest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ones must not come first again and again."""
    monkeypatch.setattr("django_rivet.runtime.sweeping.BATCH", 2)
    actors = []
    for n in range(4):
        advance(1)
        actors.append(modest.create(f"actor-{n}"))

    assert sweep() == [actors[0].id, actors[1].id]
    drive(actors[0])
    drive(actors[1])
    assert sweep() == [actors[2].id, actors[3].id]


def test_a_thousand_sends_in_one_transaction_ring_a_few_times(greedy: Any, broker: deque[str]) -> None:
    """A hint says that there is something; one is enough, and a second may go out while the first is on its way."""
    actor = greedy.create("main")
    assert bell.drain(10)
    broker.clear()

    with transaction.atomic():
        for number in range(1000):
            actor.send("again", number)
    assert bell.drain(10)

    assert 1 <= len(broker) <= 5
    assert set(broker) == {actor.id}


def test_sends_one_after_another_ring_no_more_often_than_the_lull_lets_them(
    broker: deque[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first goes out at once, what comes soon after it is one more, and others do not wait for that."""
    monkeypatch.setattr(bell, "LULL_SECONDS", 3600)
    one, other = str(uuid.uuid4()), str(uuid.uuid4())
    bell.ring_on_commit(uuid.UUID(one), "tests.Any")
    assert bell.drain(10)

    for _ in range(1000):
        bell.ring_on_commit(uuid.UUID(one), "tests.Any")
    bell.ring_on_commit(uuid.UUID(other), "tests.Any")
    eventually(lambda: other in broker, 30, "the other one is rung for")
    assert list(broker) == [one, other]

    monkeypatch.setattr(bell, "LULL_SECONDS", 0)
    bell.ring_on_commit(uuid.UUID(one), "tests.Any")
    assert bell.drain(10)
    assert list(broker) == [one, other, one]


def test_a_hint_in_vain_costs_one_look(modest: Any) -> None:
    """Doubled and late hints are many where much is sent; a look locks nothing."""
    actor = modest.create("main")
    drive_task(actor.id)

    with recorded() as statements:
        drive_task(actor.id)

    assert statements.count == 1
    assert statements.reads("django_rivet_workflowrun") == 1


def test_a_worker_that_is_told_to_stop_rings_for_the_actor_it_leaves(
    greedy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the others too, and at once: nobody has to wait for a sweep."""
    rung: list[uuid.UUID] = []
    monkeypatch.setattr(celery_tasks, "ring", lambda actor_id, type_name, hint: rung.append(actor_id))
    monkeypatch.setattr("django_rivet.runtime.shutdown.is_requested", lambda: True)
    actor = greedy.create("main")

    drive_task(actor.id)

    assert [str(each) for each in rung] == [actor.id]


def test_a_worker_that_is_told_to_stop_passes_on_the_hints_that_it_still_takes(
    modest: Any, broker: deque[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the next in the broker's line for the very hint of what it hands over, and would sit on it."""
    actor = modest.create("main")
    assert bell.drain(10)
    broker.clear()
    hint = SimpleNamespace(name=TASK, args=[actor.id])

    task_received.send(sender=None, request=hint)
    assert (bell.drain(10), list(broker)) == (True, [])

    monkeypatch.setattr("django_rivet.runtime.shutdown.is_requested", lambda: True)
    task_received.send(sender=None, request=hint)
    assert (bell.drain(10), list(broker)) == (True, [actor.id])
