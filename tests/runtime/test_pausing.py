"""Pause and resume: nothing of a paused actor happens, and nothing of it is lost."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_rivet import Actor, CriticalError, Queue, action, workflow
from django_rivet.models import WorkflowRun
from django_rivet.store.runs import due_actors
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def actors() -> Any:
    with isolated_actors():
        yield


@pytest.fixture
def log() -> list[str]:
    """The outside world."""
    return []


def trips(log: list[str]) -> type[Actor[Any]]:
    class Base(Actor[Any]):
        class Meta:
            abstract = True

        answers = Queue(str)

        def do(self, thing):
            log.append(thing)
            return thing

        def undo(self, rollback, thing):
            log.append(f"undo {thing}")

        def fail(self):
            raise CriticalError("no")

        def pause_and(self, thing):
            assert type(self).get(self.key).pause()
            log.append(thing)

    return Base


def sleeper(log: list[str]) -> Any:
    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "flight", rollback=self.undo)
            ctx.sleep("night", 60)
            ctx.step("breakfast", self.do, "breakfast")

    return Trip


def test_a_paused_sleep_that_is_over_meanwhile_ends_with_the_resume(log: list[str]) -> None:
    """Its timer is kept and does not fire; nobody hints at it; after the resume it is due at once."""
    trip = sleeper(log).create("one")
    drive(trip)
    due = trip.wake_at

    # When it is paused past its due time
    assert trip.pause()
    assert (trip.status, trip.wake_at) == ("paused", None)
    advance(600)
    assert drive(trip) == "paused"
    assert due_actors(10) == []
    assert log == ["flight"]

    # Then it goes on with the resume, as if a worker had been late
    assert trip.resume()
    assert (trip.status, trip.wake_at) == ("sleeping", due)
    assert drive(trip) == "completed"
    assert log == ["flight", "breakfast"]


def test_a_resumed_sleep_that_is_not_over_ends_when_it_would_have(log: list[str]) -> None:
    """A pause makes nothing longer."""
    trip = sleeper(log).create("one")
    drive(trip)

    trip.pause()
    advance(30)
    trip.resume()

    assert drive(trip) == "sleeping"
    advance(31)
    assert drive(trip) == "completed"


def test_a_paused_actor_stores_messages_and_answers_actions(log: list[str]) -> None:
    """What was sent is taken after the resume, in order; an action is its caller's doing, not the workflow's."""

    class Shop(trips(log)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                turn.step("take", self.do, turn.queue.next("order", ["answers"]).body)

        @action
        def ping(self) -> str:
            return "pong"

    shop = Shop.create("one")
    drive(shop)
    shop.pause()

    for order in ("a", "b", "c"):
        assert shop.send("answers", order).status == "queued"
    assert drive(shop) == "paused"
    assert (shop.ping(), log) == ("pong", [])

    shop.resume()
    assert drive(shop) == "sleeping"
    assert log == ["a", "b", "c"]


def test_a_pending_workflow_begins_only_after_the_resume(log: list[str]) -> None:
    """Paused before any worker has looked at it."""
    trip = sleeper(log).create("one")

    assert trip.pause()
    assert drive(trip) == "paused"
    assert log == []

    assert trip.resume()
    assert trip.status == "pending"
    assert drive(trip) == "sleeping"
    assert log == ["flight"]


def test_a_running_workflow_pauses_when_it_asks_for_its_next_entry(log: list[str]) -> None:
    """The body that runs ends well and its record lands; the call returned at once, and the status says `running`."""
    seen: list[str] = []

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.pause_and_look)
            log.append("code behind the flight")
            ctx.step("hotel", self.do, "hotel")

        def pause_and_look(self):
            self.pause_and("flight")
            seen.append(Trip.get("one").status)

    trip = Trip.create("one")

    assert drive(trip) == "paused"
    assert (log, seen) == (["flight", "code behind the flight"], ["running"])
    assert trip.history()["flight"].status == "completed"

    trip.resume()
    assert drive(trip) == "completed"
    assert log == ["flight", "code behind the flight", "code behind the flight", "hotel"]


def test_a_loop_without_entries_pauses_at_its_next_turn(log: list[str]) -> None:
    """Asking for the next turn is asking for an entry."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("days"):
                log.append(str(turn.iteration))
                if turn.iteration == 0:
                    turn.step("pause", self.pause_and, "pause")
                if turn.iteration == 2:
                    return

    trip = Trip.create("one")

    assert drive(trip) == "paused"
    assert log == ["0", "pause"]
    trip.resume()
    assert drive(trip) == "completed"
    assert log == ["0", "pause", "1", "2"]


@pytest.mark.parametrize("ends", ["completed", "failed"])
def test_a_workflow_that_ends_before_it_asks_again_has_ended(log: list[str], ends: str) -> None:
    """The pause meant to keep it from going on, and it does not go on."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.step("last", self.pause_and, "last")
            if ends == "failed":
                raise CriticalError("lost the way")

    trip = Trip.create("one")

    assert drive(trip) == ends
    assert not trip.resume()
    run = WorkflowRun.objects.get(pk=trip.id)
    assert (run.pausing, run.paused_from) == (False, "")


def test_a_resume_before_the_pause_took_effect_takes_it_back(log: list[str]) -> None:
    """The running workflow never stops."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.pause_and, "flight")
            ctx.step("hotel", self.do, "hotel")

        def pause_and(self, thing):
            log.append(f"{Trip.get('one').pause()} {Trip.get('one').resume()} {thing}")

    trip = Trip.create("one")

    assert drive(trip) == "completed"
    assert log == ["True True flight", "hotel"]


@pytest.mark.parametrize("by", ["failure", "cancellation"])
def test_a_rollback_pauses_between_two_handlers_and_goes_on_as_a_rollback(log: list[str], by: str) -> None:
    """It ends as it would have ended, with each handler run once."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            for name in ("flight", "hotel", "car"):
                ctx.step(name, self.do, name, rollback=self.undo_and_pause)
            if by == "failure":
                ctx.step("drive", self.fail)
            ctx.sleep("night", 60)

        def undo_and_pause(self, rollback, thing):
            if thing == "hotel":
                assert Trip.get("one").pause()
            log.append(f"undo {thing}")

    trip = Trip.create("one")
    drive(trip)
    if by == "cancellation":
        trip.cancel(rollback=True)
        drive(trip)

    assert trip.status == "paused"
    assert log[3:] == ["undo car", "undo hotel"]
    assert trip.history()["flight"].rollback.status == "owed"

    assert trip.resume()
    assert trip.status == "rolling_back"
    assert drive(trip) == ("failed" if by == "failure" else "cancelled")
    assert log[3:] == ["undo car", "undo hotel", "undo flight"]


def test_a_handler_that_waits_for_its_retry_waits_on_after_the_resume(log: list[str]) -> None:
    """A paused rollback keeps the due time of its retry, and why it rolls back."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "flight", rollback=self.undo_later, rollback_backoff_base=60)
            ctx.step("hotel", self.fail)

        def undo_later(self, rollback, thing):
            if rollback.attempt == 1:
                raise OSError("busy")
            log.append(f"{rollback.cause} ({rollback.attempt})")

    trip = Trip.create("one")
    assert drive(trip) == "rolling_back"
    trip.pause()
    trip.resume()
    assert drive(trip) == "rolling_back"

    trip.pause()
    advance(67)
    assert drive(trip) == "paused"
    trip.resume()
    assert drive(trip) == "failed"
    assert log == ["flight", "CriticalError: no (2)"]


def test_a_block_that_is_being_undone_pauses_and_goes_on_undoing(log: list[str]) -> None:
    """The workflow lives on behind it, after the resume."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.try_block("stay", self.stay, rollback=True)
            ctx.step("home", self.do, "home")

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("parking", self.do, "parking", rollback=self.undo)
            block.step("room", self.do, "room", rollback=self.undo_and_pause)
            block.step("breakfast", self.fail)

        def undo_and_pause(self, rollback, thing):
            self.pause_and(f"undo {thing}")

    trip = Trip.create("one")

    assert drive(trip) == "paused"
    assert log == ["parking", "room", "undo room"]
    assert trip.resume()
    assert drive(trip) == "completed"
    assert log == ["parking", "room", "undo room", "undo parking", "home"]


def test_a_diverged_workflow_can_be_paused_and_is_diverged_after_the_resume(log: list[str]) -> None:
    """Nobody tries it again, and fills the log, until somebody wants it."""
    trip = sleeper(log).create("one")
    drive(trip)
    advance(61)
    with isolated_actors():

        class TripOfToday(trips(log)):
            class Meta:
                name = "tests.Trip"

            @workflow
            def run(self, ctx):
                ctx.step("train", self.do, "train")

        assert drive(trip) == "diverged"
        error = str(trip.error)
        assert trip.pause()
        advance(600)
        assert drive(trip) == "paused"
        assert trip.resume()
        assert (trip.status, str(trip.error)) == ("diverged", error)
        assert drive(trip) == "diverged"
    advance(600)
    assert drive(trip) == "completed"


@pytest.mark.parametrize("rollback", [False, True])
def test_a_paused_workflow_can_be_cancelled(log: list[str], rollback: bool) -> None:
    """It takes effect at once, with a rollback as well: nobody has to resume first."""
    trip = sleeper(log).create("one")
    drive(trip)
    trip.pause()

    assert trip.cancel(rollback=rollback)
    assert drive(trip) == "cancelled"

    assert log == ["flight", *(["undo flight"] if rollback else [])]
    assert not trip.resume()


@pytest.mark.parametrize("rollback", [False, True])
def test_a_paused_rollback_that_is_cancelled_goes_on_and_ends_cancelled(log: list[str], rollback: bool) -> None:
    """What began to be undone is undone to its end."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "flight", rollback=self.undo)
            ctx.step("hotel", self.do, "hotel", rollback=self.undo_and_pause)
            ctx.step("car", self.fail)

        def undo_and_pause(self, rollback, thing):
            self.pause_and(f"undo {thing}")

    trip = Trip.create("one")
    assert drive(trip) == "paused"

    assert trip.cancel(rollback=rollback)

    assert drive(trip) == "cancelled"
    assert log == ["flight", "hotel", "undo hotel", "undo flight"]


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("first", ["pause", "cancel"])
def test_a_running_workflow_that_is_told_both_is_cancelled(log: list[str], first: str, rollback: bool) -> None:
    """Whichever was asked for first."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.both, rollback=self.undo)
            ctx.step("hotel", self.do, "hotel")

        def both(self):
            trip = Trip.get("one")
            if first == "pause":
                trip.pause()
            trip.cancel(rollback=rollback)
            if first == "cancel":
                trip.pause()
            return "flight"

    trip = Trip.create("one")
    drive(trip)
    if trip.status == "paused":
        # A rollback that the cancellation asked for is what was paused.
        assert (first, rollback) == ("cancel", True)
        trip.resume()

    assert drive(trip) == "cancelled"
    assert log == (["undo flight"] if rollback else [])


def test_repeated_calls_change_nothing(log: list[str]) -> None:
    """A second pause is the first one, and a second resume has nothing to do."""
    trip = sleeper(log).create("one")
    drive(trip)

    assert [trip.pause(), trip.pause(), trip.status] == [True, True, "paused"]
    assert [trip.resume(), trip.resume(), trip.status] == [True, False, "sleeping"]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_what_stands_still_is_not_paused(log: list[str], status: str) -> None:
    """False, as `cancel` says it; the status tells more than `paused` would."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            if status == "failed":
                ctx.step("fail", self.fail)
            if status == "cancelled":
                ctx.sleep("night", 60)

    trip = Trip.create("one")
    drive(trip)
    if status == "cancelled":
        trip.cancel()

    assert not trip.pause()
    assert not trip.resume()
    assert trip.status == status


def test_an_actor_without_a_workflow_can_be_paused(log: list[str]) -> None:
    """As a mark for others; its actions run."""

    class Idle(trips(log)):
        @action
        def ping(self) -> str:
            return "pong"

    idle = Idle.create("one")

    assert [idle.pause(), idle.status, idle.ping()] == [True, "paused", "pong"]
    assert [idle.resume(), idle.status, idle.wake_at] == [True, "sleeping", None]


def test_belongs_to_the_callers_transaction(log: list[str]) -> None:
    """Rolled back, it was neither paused nor resumed."""
    trip = sleeper(log).create("one")
    drive(trip)

    with transaction.atomic():
        trip.pause()
        transaction.set_rollback(True)
    assert trip.status == "sleeping"

    trip.pause()
    with transaction.atomic():
        trip.resume()
        transaction.set_rollback(True)
    assert trip.status == "paused"


def test_the_async_twins_do_the_same(log: list[str]) -> None:
    """`apause`, `aresume` and `awake`."""

    async def operate() -> list[bool]:
        trip = await sleeper(log).acreate("one")
        return [await trip.apause(), await trip.awake(), await trip.aresume(), await trip.awake()]

    assert async_to_sync(operate)() == [True, False, True, True]


def test_waiting_for_shows_what_a_paused_actor_waits_for(log: list[str]) -> None:
    """A delayed message that comes due meanwhile is taken with the resume, and not before."""

    class Trip(trips(log)):
        @workflow
        def run(self, ctx):
            return ctx.queue.next("answer", ["answers"]).body

    trip = Trip.create("one")
    drive(trip)
    trip.send("answers", "yes", delay=30)

    trip.pause()
    advance(31)

    assert drive(trip) == "paused"
    assert trip.waiting_for == ["answers"]
    trip.resume()
    assert drive(trip) == "completed"
