"""Destroy: an actor goes with all that belongs to it, and whoever works on it at that moment cannot bring it back."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import connection, transaction

from django_rivet import (
    Actor,
    ActorBusyError,
    ActorNotFoundError,
    CompensationOwedError,
    CriticalError,
    Event,
    Queue,
    StepOnlyError,
    WorkflowFinishedError,
    action,
    workflow,
)
from django_rivet.models import Actor as ActorRow
from django_rivet.models import Compensation, Entry, Message, WorkflowRun
from django_rivet.models import Event as EventRow
from django_rivet.runtime.destroying import destroy_actor
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import this_worker
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive, isolated_actors
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db

TABLES = (ActorRow, WorkflowRun, Entry, Compensation, Message, EventRow)


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@pytest.fixture
def trips() -> Any:
    """Books a flight, says so, and sleeps."""

    class Trip(Actor):
        class State:
            log: list[str] = []

        letters = Queue(str)
        booked = Event(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, "flight", rollback=self.undo)
            ctx.sleep("night", 60)

        def book(self, name):
            self.state.log.append(name)
            self.booked.broadcast(name)

        def undo(self, rollback, output):
            Group.objects.create(name=f"undone {rollback.args[0]}")

        @action
        def note(self, word: str) -> None:
            self.state.log.append(word)

    return Trip


def rows() -> list[int]:
    return [table.objects.count() for table in TABLES]


def test_nothing_of_a_destroyed_actor_is_left(trips: Any) -> None:
    """Neither state nor history, messages, events or compensations; another actor is not touched."""
    other = trips.create("other")
    drive(other)
    before = rows()
    trip = trips.create("one")
    trip.send("letters", "hello")
    drive(trip)

    trip.destroy(force=True)

    assert rows() == before
    assert other.status == "sleeping"


def test_the_same_key_starts_fresh(trips: Any) -> None:
    """Under another id, with nothing of the old one; the old handle is not one to the new actor."""
    old = trips.create("one")
    drive(old)
    old.destroy(force=True)

    new = trips.get_or_create("one")

    assert new.created
    assert new.id != old.id
    assert (new.status, new.state.log, list(new.history())) == ("pending", [], [])
    assert drive(new) == "sleeping"
    with pytest.raises(ActorNotFoundError):
        _ = old.status


def test_handles_to_it_raise_actor_not_found(trips: Any) -> None:
    """Whatever they are asked for, a second `destroy()` included."""
    trip = trips.create("one")
    trip.destroy()

    for ask in (
        trip.snapshot,
        lambda: list(trip.history()),
        lambda: trip.note("late"),
        lambda: trip.send("letters", "late"),
        trip.recover,
        trip.cancel,
        trip.pause,
        trip.resume,
        trip.wake,
        lambda: trip.skip_rollback("flight", "why not"),
        trip.destroy,
        lambda: trip.destroy(force=True),
        lambda: trips.get("one"),
    ):
        with pytest.raises(ActorNotFoundError):
            ask()
    assert rows() == [0] * 6


def test_what_is_owed_refuses_it(trips: Any) -> None:
    """The error names the steps and the way out, and nothing is gone; after a rollback nothing is owed."""
    trip = trips.create("one")
    drive(trip)
    before = rows()

    with pytest.raises(CompensationOwedError, match=r"1 steps \('flight'\).*cancel\(rollback=True\)"):
        trip.destroy()
    assert rows() == before

    trip.cancel(rollback=True)
    drive(trip)
    trip.destroy()
    assert Group.objects.get().name == "undone flight"


def test_forced_nothing_is_undone(trips: Any) -> None:
    """What the steps did stays, and no worker comes to undo it."""
    trip = trips.create("one")
    drive(trip)

    trip.destroy(force=True)

    drive()
    advance(600)
    drive()
    assert not Group.objects.exists()


def test_a_failed_handler_is_owed_until_somebody_decides(trips: Any) -> None:
    """A skipped one is not owed any more."""

    class Stuck(trips):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, "flight", rollback=self.fail, rollback_max_retries=0)
            ctx.step("hotel", self.fail)

        def fail(self, *args):
            raise CriticalError("no")

    trip = Stuck.create("one")
    assert drive(trip) == "rollback_failed"

    with pytest.raises(CompensationOwedError):
        trip.destroy()
    trip.skip_rollback("flight", "it was free")
    drive(trip)
    trip.destroy()


@pytest.mark.parametrize("is_async", [False, True])
def test_on_destroy_runs_in_the_same_transaction(is_async: bool) -> None:
    """It sees the state, may change what the project keeps, and is no workflow code."""

    class Trip(Actor):
        class State:
            name: str = "Rome"

        def on_destroy(self):
            Group.objects.create(name=f"{self.key} to {self.state.name} is gone")

    if is_async:

        class AsyncTrip(Trip):
            async def on_destroy(self):
                await Group.objects.acreate(name=f"{self.key} to {self.state.name} is gone")

        Trip = AsyncTrip

    trip = Trip.create("one")

    with transaction.atomic():
        trip.destroy()
        assert Group.objects.exists()
        transaction.set_rollback(True)
    assert trip.status == "sleeping"
    assert not Group.objects.exists()

    trip.destroy()
    assert Group.objects.get().name == "one to Rome is gone"
    assert not ActorRow.objects.exists()


def test_an_error_of_the_hook_refuses_it_even_if_forced(trips: Any) -> None:
    """The caller gets it, and neither the actor nor what belongs to it is gone; the hook's own writes are."""

    class Guarded(trips):
        def on_destroy(self):
            Group.objects.create(name="half done")
            raise ValueError("still on the road")

    trip = Guarded.create("one")
    before = rows()

    with pytest.raises(ValueError, match="still on the road"):
        trip.destroy(force=True)

    assert (rows(), trip.status) == (before, "pending")
    assert not Group.objects.exists()


def test_an_actor_whose_class_is_gone_can_be_destroyed(trips: Any) -> None:
    """By whoever has no class for a handle; what was to be recorded with it is."""
    trip = trips.create("one")
    recorded: list[bool] = []

    destroy_actor(None, uuid.UUID(trip.id), trip.key, record=lambda: recorded.append(ActorRow.objects.exists()))

    assert (recorded, rows()) == ([True], [0] * 6)


def test_a_state_that_cannot_be_read_any_more_is_no_obstacle(trips: Any) -> None:
    """A deploy has changed its class; who wants to get rid of it is not to mend it first."""
    trip = trips.create("one")
    ActorRow.objects.update(state='{"log": 7}')

    trip.destroy()

    assert not ActorRow.objects.exists()


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_a_step_may_destroy_its_own_actor(trips: Any, atomic: bool, caplog: pytest.LogCaptureFixture) -> None:
    """ACTOR-08: the hook runs, what the body wrote stays, nothing more of the workflow runs, and nobody complains."""
    passes: list[str] = []

    class Suicidal(trips):
        @workflow
        def run(self, ctx):
            passes.append("pass")
            try:
                ctx.step("end", self.end, atomic=atomic)
            except Exception:
                passes.append("swallowed")
            ctx.step("after", passes.append, "after")

        def end(self):
            Group.objects.create(name="written")
            if atomic:
                self.state.log.append("changed")
            Suicidal.get("one").destroy()

        def on_destroy(self):
            Group.objects.create(name="hook")

    actor = Suicidal.create("one")
    with caplog.at_level(logging.WARNING):
        with pytest.raises(ActorNotFoundError):
            drive(actor)
        drive()

    assert passes == ["pass"]
    assert rows() == [0] * 6
    assert sorted(Group.objects.values_list("name", flat=True)) == ["hook", "written"]
    assert caplog.text == ""


def test_a_step_that_takes_its_destruction_back_goes_on(trips: Any) -> None:
    """A savepoint around it was rolled back: the actor is there, and so is the step's record."""

    class Doubtful(trips):
        @workflow
        def run(self, ctx):
            ctx.step("end", self.end)

        def end(self):
            with suppress(LookupError), transaction.atomic():
                self.state.log.append("changed")
                Doubtful.get("one").destroy()
                raise LookupError

    actor = Doubtful.create("one")

    assert drive(actor) == "completed"
    assert actor.state.log == ["changed"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_every_commit_of_a_step_that_destroys_its_actor(trips: Any, after: bool) -> None:
    """Either it is gone with all that its body did, or the next worker does it."""

    class Suicidal(trips):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.book, "flight")
            ctx.step("end", self.end)

        def end(self):
            Group.objects.create(name=self.key)
            Suicidal.get(self.key).destroy()

    for n in count(1):
        actor = Suicidal.create(str(n))
        with crash_at(n, after) as point, suppress(SimulatedCrash, ActorNotFoundError):
            drive(actor)
        drive()

        assert Group.objects.filter(name=str(n)).count() == 1, n
        assert rows() == [0] * 6, n
        if not point.crashed:
            assert n == 4
            return


def test_an_action_may_destroy_its_own_actor(trips: Any) -> None:
    """It returns its result; its change of the state goes with the actor."""

    class Leaving(trips):
        @action
        def leave(self) -> str:
            self.state.log.append("bye")
            Leaving.get(self.key).destroy()
            return "bye"

    actor = Leaving.create("one")

    assert actor.leave() == "bye"
    assert rows() == [0] * 6


def test_an_error_hook_may_destroy_its_own_actor(trips: Any, caplog: pytest.LogCaptureFixture) -> None:
    """With the failure that it was told of; there is nothing left to roll back."""

    class Failing(trips):
        @workflow
        def run(self, ctx):
            ctx.step("fail", self.fail)

        @run.on_error
        def give_up(self, event):
            Failing.get(self.key).destroy()

        def fail(self):
            raise CriticalError("no")

    actor = Failing.create("one")
    with caplog.at_level(logging.WARNING), pytest.raises(ActorNotFoundError):
        drive(actor)

    assert rows() == [0] * 6
    assert caplog.text == ""


def test_workflow_code_cannot_destroy(trips: Any) -> None:
    """Like everything that reaches an actor, it belongs in a step."""

    class Rash(trips):
        @workflow
        def run(self, ctx):
            actor.destroy()

    actor = Rash.create("one")

    assert drive(actor) == "failed"
    assert actor.error.name == StepOnlyError.__name__


def test_the_async_twin_does_the_same(trips: Any) -> None:
    """`adestroy`."""
    trip = trips.create("one")
    drive(trip)

    with pytest.raises(CompensationOwedError):
        async_to_sync(trip.adestroy)()
    async_to_sync(trip.adestroy)(force=True)

    assert rows() == [0] * 6


# Races -------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", ["atomic", "not atomic", "broadcasts", "fails", "handler"])
def test_a_worker_that_drives_it_writes_nothing_more(trips: Any, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its body comes back to an actor that is gone: the drive ends, and that is no error. Its lease is gone as well."""
    ends: list[str] = []

    class Driven(trips):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("work", self.work, atomic=what == "atomic", rollback=self.undo_it, timeout=0)
            if what == "handler":
                ctx.step("fail", self.fail)
            ctx.step("after", ends.append, "after")

        def work(self):
            if what == "handler":
                return
            self.disappear()
            if what == "atomic":
                Group.objects.create(name="late")
            if what == "broadcasts":
                self.booked.broadcast("late")
            if what == "fails":
                raise OSError("late")

        def undo_it(self, rollback, output):
            self.disappear()

        def fail(self):
            raise CriticalError("no")

        def disappear(self):
            at_once(1, begin_anew)

        @run.on_error
        def note(self, event):
            pass

    def begin_anew(n: int) -> None:
        Driven.get("one").destroy(force=True)
        new.append(Driven.create("one"))

    new: list[Any] = []
    actor = Driven.create("one")

    with caplog.at_level(logging.WARNING):
        drive_once(uuid.UUID(actor.id), this_worker())

    assert caplog.text == ""
    assert ends == []
    assert not Group.objects.exists()
    # A fresh one has the key, and nothing of the old one came into it.
    assert new[0].status == "pending"
    assert rows() == [1, 1, 0, 0, 0, 0]
    assert not drive_once(uuid.UUID(actor.id), this_worker())


@pytest.mark.django_db(transaction=True)
def test_it_waits_for_a_turn_and_gives_up_in_time(trips: Any, settings: Any) -> None:
    """A body that holds the state is not interrupted; the caller is told that nothing happened."""
    settings.RIVET = {"TURN_TIMEOUT": 0.2}
    refused: list[Any] = []

    class Holding(trips):
        @workflow
        def run(self, ctx):
            ctx.step("work", self.work)

        def work(self):
            self.state.log.append("working")
            if not refused:
                Group.objects.create(name="a write takes SQLite's only lock")
                refused.extend(at_once(1, try_to))

    def try_to(n: int) -> Any:
        if connection.vendor == "sqlite":
            connection.cursor().execute("PRAGMA busy_timeout = 200")
        try:
            return Holding.get("one").destroy()
        except ActorBusyError as error:
            return str(error)

    actor = Holding.create("one")

    assert drive(actor) == "completed"
    assert "nothing happened, try again" in refused[0]
    assert actor.state.log == ["working"]


@pytest.mark.django_db(transaction=True)
def test_everything_at_once_leaves_whole_actors_or_none(trips: Any) -> None:
    """Destroying, sending, calling, cancelling and making it again: errors are the named ones, no row is an orphan."""
    trips.create("one")
    trouble: list[BaseException] = []

    jobs = [
        lambda handle: handle.destroy(force=True),
        lambda handle: handle.send("letters", "hello"),
        lambda handle: handle.note("word"),
        lambda handle: handle.cancel(),
        lambda handle: drive_once(uuid.UUID(handle.id), this_worker()),
    ]

    def work(n: int) -> None:
        for _ in range(12):
            try:
                jobs[n](trips.get_or_create("one"))
            except (ActorNotFoundError, ActorBusyError, WorkflowFinishedError, DatabaseFailedError):
                pass
            except Exception as error:
                if "database is locked" not in str(error):
                    trouble.append(error)

    at_once(5, work)

    assert trouble == []
    alive = set(ActorRow.objects.values_list("pk", flat=True))
    assert len(alive) <= 1
    for table in TABLES[1:]:
        assert set(table.objects.values_list("actor_id", flat=True)) <= alive
    if alive:
        trips.get("one").destroy(force=True)
    assert rows() == [0] * 6
