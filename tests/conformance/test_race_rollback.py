"""RACE-14, ROLLBACK-20: what winners and losers have done, and when it is undone."""

import pytest

from django_rivet import workflow
from django_rivet.testing import advance, drive
from tests.conformance.racers import IN_BOTH_MODES, Gate, statuses, undone
from tests.conformance.travels import BOOKED, on_the_way, travels
from tests.conformance.undoable import undoable


@pytest.fixture
def broken():
    return set()


@IN_BOTH_MODES
def test_race_14_with_rollback_losers_they_are_undone_when_the_race_is_decided(mode, outside, broken):
    """Differs on purpose: newest first, and before the workflow goes on."""

    class Trip(travels(outside, broken)):
        pass

    trip = on_the_way(Trip)

    assert drive(trip) == "completed"

    assert outside == [*BOOKED, "undo slow parking", "undo slow room", "do car for fast", "do end"]
    assert undone(trip)["hotel/slow/room"] == "completed"
    assert statuses(trip)["hotel"] == "completed"


@IN_BOTH_MODES
def test_race_14_without_it_they_are_undone_with_the_workflow(mode, outside, broken):
    """Differs on purpose: nothing that a loser did is forgotten; all is undone newest first."""

    class Trip(travels(outside, broken)):
        rollback_losers = False

    trip = on_the_way(Trip)
    broken.add("end")

    assert drive(trip) == "failed"

    assert outside[:5] == [*BOOKED, "do car for fast"]
    assert outside[5:] == [
        "undo car for fast",
        "undo fast room",
        "undo slow parking",
        "undo slow room",
        "undo flight",
    ]


@IN_BOTH_MODES
def test_race_14_with_it_a_workflow_that_fails_later_undoes_losers_once(mode, outside, broken):
    """They owe nothing any more; ROLLBACK-20: what the winner did is undone."""

    class Trip(travels(outside, broken)):
        pass

    trip = on_the_way(Trip)
    broken.add("end")

    assert drive(trip) == "failed"

    assert outside == [
        *BOOKED,
        "undo slow parking",
        "undo slow room",
        "do car for fast",
        "undo car for fast",
        "undo fast room",
        "undo flight",
    ]


@IN_BOTH_MODES
def test_rollback_20_handlers_inside_the_winner_run(mode, outside):
    """Differs on purpose: also where the checkpoint stands in the branch, as long as there is one around it."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.race("hotel", {"only": self.only})
            ctx.step("end", self.fail)

        def only(self, branch):
            branch.rollback_checkpoint("own")
            branch.step("room", self.do, "room", rollback=self.undo)

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert outside == ["do room", "undo room"]


@IN_BOTH_MODES
def test_race_14_without_a_checkpoint_around_it_what_branches_did_is_settled(mode, outside):
    """Their own checkpoints protect them until the race has ended well, and no longer."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.race("hotel", {"slow": self.slow, "fast": self.fast})
            ctx.step("end", self.fail)

        def slow(self, branch):
            branch.rollback_checkpoint("own")
            branch.step("room", self.do, "slow", rollback=self.undo)
            branch.sleep("wait", 3600)

        def fast(self, branch):
            branch.rollback_checkpoint("own")
            branch.sleep("wait", 10)
            branch.step("room", self.do, "fast", rollback=self.undo)

    trip = on_the_way(Trip)

    assert drive(trip) == "failed"

    assert outside == ["do slow", "do fast"]
    assert undone(trip) == {"hotel/slow/room": "settled", "hotel/fast/room": "settled"}


@IN_BOTH_MODES
def test_race_14_where_the_race_fails_all_of_it_is_undone(mode, outside):
    """A branch that failed owes what it did, and with no checkpoint around the branches they are undone as well."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.race("hotel", {"left": self.branch("left"), "right": self.branch("right")})

        def branch(self, name):
            def books(branch):
                branch.rollback_checkpoint("own")
                branch.step("room", self.do, name, rollback=self.undo)
                branch.step("end", self.fail)

            return books

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert sorted(outside) == ["do left", "do right", "undo left", "undo right"]


@pytest.mark.django_db(transaction=True)
def test_race_14_a_body_cut_off_with_an_unknown_outcome_is_undone(outside):
    """A charge that may have gone through is given back with ``rollback_when="attempted"``, as unknown."""
    with Gate() as gate:

        class Trip(undoable(outside)):
            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("trip")
                return ctx.race("pay", {"charge": self.charge, "timeout": self.timeout}, rollback_losers=True)[0]

            def charge(self, branch):
                options = {"atomic": False, "rollback_when": "attempted"}
                branch.step("charge", gate.hold_up, rollback=self.refund, **options)

            def timeout(self, branch):
                branch.sleep("nap", 0.2)

            def refund(self, rollback, output):
                outside.append((rollback.outcome, output))

        trip = Trip.create("one")

        assert drive(trip) == "completed"

        assert gate.is_shut
        assert trip.output == "timeout"
        assert outside == [("unknown", None)]
    assert undone(trip) == {"pay/charge/charge": "completed"}


@IN_BOTH_MODES
@pytest.mark.parametrize("rollback_losers", [True, False])
def test_race_14_a_block_of_a_loser_in_the_middle_of_its_rollback(mode, outside, broken, rollback_losers):
    """It is cut off; what it still owed is undone with the losers, or with the workflow, each step once."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.race("hotel", {"slow": self.slow, "fast": self.fast}, rollback_losers=rollback_losers)
            outside.append("after the race")
            ctx.step("end", self.fail)

        def slow(self, branch):
            branch.try_block("stay", self.stay, rollback=True)
            outside.append("never")

        def stay(self, block):
            block.step("room", self.do, "room", rollback=self.undo)
            block.step("parking", self.do, "parking", rollback=self.undo_late, rollback_backoff_base=60)
            block.step("tour", self.do, "tour", rollback=self.undo)
            block.step("fail", self.fail)

        def undo_late(self, rollback, thing):
            if "late" not in broken:
                broken.add("late")
                raise OSError("no answer")
            self.undo(rollback, thing)

        def fast(self, branch):
            branch.sleep("wait", 10)

    trip = Trip.create("one")
    assert drive(trip) == "rolling_back"
    assert outside == ["do room", "do parking", "do tour", "undo tour"]
    advance(11)
    drive(trip)
    advance(600)

    assert drive(trip) == "failed"
    if rollback_losers:
        assert outside[4:] == ["undo parking", "undo room", "after the race"]
    else:
        assert [each for each in outside[4:] if each != "after the race"] == ["undo parking", "undo room"]
    assert statuses(trip)["hotel/slow/stay"] == "cancelled"
