"""RECOVER: what was compensated runs again where it is reached, and what is around it is open again."""

import pytest
from django.contrib.auth.models import Group

from django_rivet import CriticalError, current_step, workflow
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.undoable import undoable

pytestmark = pytest.mark.django_db


def failing(outside, open_doors):
    """A base for actors that end with a step which fails while ``open_doors`` is empty."""

    class Failing(undoable(outside)):
        class Meta:
            abstract = True

        def go_home(self):
            if not open_doors:
                raise CriticalError("no way home")
            outside.append("home")

    return Failing


def test_recover_05_compensated_steps_run_again_and_the_others_keep_their_records(outside):
    """Differs on purpose from the reference, where they stay completed although their effect is gone."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("map", self.do, "map")
            ctx.step("hotel", self.do, "H-2", rollback=self.undo)
            ctx.step("home", self.go_home)

    trip = Trip.create("one")
    drive(trip)
    trip.recover()
    assert str(trip.history()).splitlines() == [
        "trip  checkpoint  completed",
        "flight  step  placeholder",
        "map  step  completed  1 attempt",
        "hotel  step  placeholder",
        "home  step  pending",
    ]
    doors.append("open")
    outside.clear()

    assert drive(trip) == "completed"

    assert outside == ["do F-1", "do H-2", "home"]


def test_recover_05_handlers_run_a_second_time_for_what_ran_a_second_time(outside):
    """Differs on purpose: each run of a step registers its handler anew, so that a second failure undoes it again."""

    class Trip(failing(outside, [])):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, rollback=self.undo)
            ctx.step("home", self.go_home)

        def book(self):
            return self.do(f"F-{len(outside)}")

    trip = Trip.create("one")
    drive(trip)

    for _ in range(2):
        assert trip.recover()
        assert not trip.recover(), "it is on its way already"
        assert drive(trip) == "failed"

    assert outside == ["do F-0", "undo F-0", "do F-2", "undo F-2", "do F-4", "undo F-4"]
    for earlier in (0, 1):
        assert trip.history(generation=earlier)["flight"].rollback.status == "completed"


def test_recover_05_a_compensation_changes_the_key_of_its_step_and_of_no_other(outside):
    """Differs on purpose: the outside must take the second run for a new one; other steps keep their keys."""

    class Trip(failing(outside, [])):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.note, "flight", rollback=self.note_undo)
            ctx.step("home", self.note, "home")

        def note(self, what):
            outside.append((what, current_step().idempotency_key))
            if what == "home":
                self.fail()

        def note_undo(self, rollback, output):
            outside.append(("undo", rollback.idempotency_key))

    trip = Trip.create("one")
    drive(trip)
    for _ in range(2):
        trip.recover()
        drive(trip)

    keys = {what: [key for w, key in outside if w == what] for what in ("flight", "home", "undo")}
    assert [len(keys[what]) for what in keys] == [3, 3, 3]
    assert len(set(keys["flight"])) == len(set(keys["undo"])) == 3
    assert len(set(keys["home"])) == 1
    assert not set(keys["flight"]) & set(keys["undo"])


def test_recover_05_a_new_step_may_stand_before_a_compensated_one(outside):
    """Differs on purpose: its placeholder counts as visited, so a repair may put a new step in front of it."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            if doors:
                ctx.step("insurance", self.do, "insurance")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("home", self.go_home)

    trip = Trip.create("one")
    drive(trip)
    doors.append("open")

    trip.recover()
    assert drive(trip) == "completed"

    assert outside == ["do F-1", "undo F-1", "do insurance", "do F-1", "home"]


def test_recover_03_after_rollback_failed_the_rollback_is_finished_first(outside):
    """Differs on purpose: `recover()` ends the rollback, which leaves `failed`; going forward takes another one."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.step("hotel", self.do, "H-2", rollback=self.undo_when_open, rollback_max_retries=0)
            ctx.step("home", self.go_home)

        def undo_when_open(self, rollback, thing):
            if not doors:
                raise OSError("closed")
            self.undo(rollback, thing)

    trip = Trip.create("one")

    assert drive(trip) == "rollback_failed"
    assert trip.recover()
    assert drive(trip) == "rollback_failed", "still closed"
    doors.append("open")
    assert trip.recover()
    assert drive(trip) == "failed"
    assert outside == ["do F-1", "do H-2", "undo H-2", "undo F-1"]
    assert trip.recover()
    assert drive(trip) == "completed"

    assert outside[4:] == ["do F-1", "do H-2", "home"]


def test_recover_03_what_a_mistake_left_owed_is_undone_by_the_next_failure(outside):
    """Differs on purpose: a usage error compensates nothing, and the debt is not forgotten when that is repaired."""
    repaired = []

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            if not repaired:
                ctx.step("home", self.fail, retries=3)
            ctx.step("home", self.fail)

    trip = Trip.create("one")
    assert drive(trip) == "failed"
    assert trip.error.name == "InvalidStepError"
    repaired.append("yes")

    trip.recover()
    assert drive(trip) == "failed"

    assert str(trip.error) == "CriticalError: no"
    assert outside == ["do F-1", "undo F-1"]


def test_recover_05_a_crash_right_after_recover_loses_nothing(outside):
    """Differs on purpose: what runs again does so exactly once, also when its first worker dies at once."""
    doors = []

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, rollback=self.cancel_booking)
            ctx.step("home", self.go_home)

        def book(self):
            return Group.objects.create(name="seat").name

        def cancel_booking(self, rollback, name):
            Group.objects.get(name=name).delete()

    for n, after in ((1, False), (1, True), (2, False), (2, True)):
        Group.objects.all().delete()
        doors.clear()
        trip = Trip.create(f"{n} {after}")
        drive(trip)
        assert not Group.objects.exists()
        doors.append("open")
        trip.recover()

        with pytest.raises(SimulatedCrash), crash_at(n, after):
            drive(trip)
        advance(1)

        assert drive(trip) == "completed"
        assert Group.objects.count() == 1


def test_recover_05_a_step_that_runs_again_may_fail_in_front_of_another_that_does(outside):
    """What was undone first fails once before it succeeds; the step outside behind it is no obstacle to the retry."""
    doors = []
    answers = iter([OSError("busy")])

    class Trip(failing(outside, doors)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.book, retry_backoff_base=0.001, rollback=self.undo)
            ctx.step("home", self.go_home, atomic=False)

        def book(self):
            for error in answers if doors else ():
                raise error
            return self.do("F-1")

    trip = Trip.create("one")
    assert drive(trip) == "failed"
    trip.recover()
    doors.append("open")
    outside.clear()

    while drive(trip) == "sleeping":
        advance(1)

    assert (trip.status, outside) == ("completed", ["do F-1", "home"])
