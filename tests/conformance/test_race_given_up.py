"""RACE-14: handlers of losers that fail, are given up, and are decided about; and who interrupts them."""

import pytest

from django_rivet.testing import advance, drive
from tests.conformance.racers import IN_BOTH_MODES
from tests.conformance.travels import BOOKED, on_the_way, travels


@pytest.fixture
def broken():
    return set()


@IN_BOTH_MODES
def test_race_14_a_handler_that_fails_is_tried_again_before_the_race_returns(mode, outside, broken):
    """The actor is ``rolling_back`` meanwhile, and the winner is decided for good."""

    class Trip(travels(outside, broken)):
        handler_options = {"rollback_max_retries": 3}

    trip = on_the_way(Trip)
    broken.add("undo slow parking")

    assert drive(trip) == "rolling_back"
    assert outside == [*BOOKED, "cannot undo slow parking"]
    broken.clear()
    advance(60)

    assert drive(trip) == "completed"
    assert outside[5:] == ["undo slow parking", "undo slow room", "do car for fast", "do end"]


@pytest.fixture(params=["retry", "skip", "confirm", "recover"])
def decision(request):
    """What an operator does about a handler that was given up, and whether it is run again then."""
    path = "hotel/slow/parking"
    decisions = {
        "retry": lambda trip: trip.retry_rollback(path),
        "skip": lambda trip: trip.skip_rollback(path, "never mind"),
        "confirm": lambda trip: trip.confirm_rollback(path, "by telephone"),
        "recover": lambda trip: trip.recover(),
    }
    return decisions[request.param], request.param in ("retry", "recover")


@IN_BOTH_MODES
def test_race_14_a_handler_that_is_given_up_waits_for_an_operator(mode, outside, broken, decision):
    """``rollback_failed``; after the decision the older ones run, and the race returns its winner."""
    decide, runs_again = decision

    class Trip(travels(outside, broken)):
        pass

    trip = on_the_way(Trip)
    broken.add("undo slow parking")
    assert drive(trip) == "rollback_failed"
    assert str(trip.error) == "OSError: no answer"
    assert outside == [*BOOKED, "cannot undo slow parking"]
    broken.clear()

    decide(trip)

    assert drive(trip) == "completed"
    assert trip.output == "fast"
    again = ["undo slow parking"] if runs_again else []
    assert outside[5:] == [*again, "undo slow room", "do car for fast", "do end"]


@IN_BOTH_MODES
@pytest.mark.parametrize("rollback", [True, False])
def test_race_14_a_cancellation_waits_for_what_the_losers_are_owed(mode, outside, broken, rollback):
    """Then it takes effect; with ``rollback=True`` all is undone, newest first."""

    class Trip(travels(outside, broken)):
        handler_options = {"rollback_max_retries": 3}

    trip = on_the_way(Trip)
    broken.add("undo slow parking")
    assert drive(trip) == "rolling_back"
    trip.cancel(rollback=rollback)
    assert drive(trip) in ("rolling_back", "cancelled")
    broken.clear()
    advance(60)

    assert drive(trip) == "cancelled"
    losers = ["undo slow parking", "undo slow room"]
    expected = ["undo fast room", *losers, "undo flight"] if rollback else losers
    assert [each for each in outside[4:] if not each.startswith("cannot")] == expected


@IN_BOTH_MODES
def test_race_14_a_pause_stands_between_two_handlers_of_losers(mode, outside, broken):
    """And goes on after it, without a second winner."""

    class Trip(travels(outside, broken)):
        handler_options = {"rollback_max_retries": 3}

    trip = on_the_way(Trip)
    broken.add("undo slow parking")
    assert drive(trip) == "rolling_back"
    trip.pause()
    broken.clear()
    advance(60)
    assert drive(trip) == "paused"
    assert outside == [*BOOKED, "cannot undo slow parking"]

    trip.resume()

    assert drive(trip) == "completed"
    assert outside[5:] == ["undo slow parking", "undo slow room", "do car for fast", "do end"]
