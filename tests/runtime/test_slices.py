"""An actor that has had its slice goes behind the others, but never without having got anywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import override_settings

from django_rivet import Actor, CriticalError, workflow
from django_rivet.runtime import celery_tasks
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import Worker, in_process_worker
from django_rivet.store.runs import Hint
from django_rivet.testing import isolated_actors, now

pytestmark = pytest.mark.django_db

WORKER = in_process_worker("one that shares")


@pytest.fixture(autouse=True)
def slices_that_are_over_at_once() -> Iterator[None]:
    """Whatever the workflow's code does first takes longer."""
    with override_settings(RIVET={"SLICE_SECONDS": 1e-9}), isolated_actors():
        yield


def drives_until(handle: Any, *ends: str) -> int:
    for number in count(1):
        assert number < 20, f"{handle!r} gets nowhere:\n{handle.history()}"
        drive_once(UUID(handle.id), WORKER)
        if handle.status in ends:
            return number
    raise AssertionError


def test_a_slice_ends_with_the_first_thing_that_is_recorded() -> None:
    """The actor is due again at once, for whichever worker has time."""
    log: list[str] = []

    class Long(Actor):
        @workflow
        def run(self, ctx):
            for name in ("a", "b", "c"):
                ctx.step(name, log.append, name)

    long = Long.create("one")

    drive_once(UUID(long.id), WORKER)

    assert log == ["a"]
    assert long.status == "sleeping"
    assert long.wake_at <= now()


def test_a_workflow_slower_than_its_slice_gets_to_its_end() -> None:
    """What a slice did not record would only be repeated by the next one, for ever."""
    log: list[str] = []

    class Long(Actor):
        @workflow
        def run(self, ctx):
            for name in ("a", "b", "c"):
                ctx.step(name, log.append, name)

    long = Long.create("one")

    assert drives_until(long, "completed") <= 4

    assert log == ["a", "b", "c"]


def test_a_rollback_slower_than_its_slice_gets_to_its_end() -> None:
    """One handler in each slice at least."""
    log: list[str] = []

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for name in ("a", "b", "c"):
                ctx.step(name, log.append, name, rollback=self.undo)
            ctx.step("fail", self.fail)

        def undo(self, rollback, output):
            log.append(f"undo {rollback.args[0]}")

        def fail(self):
            raise CriticalError("no")

    trip = Trip.create("one")

    assert drives_until(trip, "failed") <= 8

    assert log == ["a", "b", "c", "undo c", "undo b", "undo a"]


@override_settings(RIVET={"SLICE_SECONDS": 60})
def test_an_actor_that_is_driven_again_at_once_has_what_is_left_of_its_slice() -> None:
    """With a slice for each drive it could have almost two before it goes behind the others."""
    log: list[str] = []

    class Long(Actor):
        @workflow
        def run(self, ctx):
            for name in ("a", "b", "c"):
                ctx.step(name, log.append, name)

    long = Long.create("one")

    drive_once(UUID(long.id), replace(WORKER, slice_ends=time.monotonic()))

    assert log == ["a"]


@override_settings(RIVET={"SLICE_SECONDS": 60})
def test_all_drives_of_one_task_share_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task goes on with its actor as long as that has something to do."""
    ends: list[float] = []

    def drive_a_few_times(actor_id: UUID, worker: Worker, hint: Hint) -> bool:
        ends.append(worker.slice_ends)
        return len(ends) < 3

    monkeypatch.setattr(celery_tasks, "drive_once", drive_a_few_times)

    celery_tasks.drive(str(uuid4()))

    assert len(ends) == 3
    assert len(set(ends)) == 1
