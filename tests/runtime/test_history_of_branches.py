"""How joins and races read in a history, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.models import Entry
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.fixture
def trip() -> Iterator[type[Actor]]:
    """Books a flight at once, a hotel in an hour, and waits for somebody to choose a car, which can be sold out."""
    with isolated_actors():

        class Trip(Actor):
            cars = Queue(str)

            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("trip")
                return ctx.join("bookings", {"flight": self.flight, "car": self.car, "hotel": self.hotel})

            def flight(self, branch):
                return branch.step("book", self.book, "flight", rollback=self.give_back)

            def car(self, branch):
                return branch.step("book", self.book, branch.queue.next("choice").body, rollback=self.give_back)

            def hotel(self, branch):
                branch.sleep("an hour", 3600)
                return branch.step("book", self.book, "hotel", rollback=self.give_back)

            def book(self, what):
                if what == "limousine":
                    raise CriticalError("no limousine left")
                return f"{what}-1"

            def give_back(self, rollback, booking): ...

        yield Trip


def test_branches_without_a_record_are_shown_as_running(trip):
    """Also where nothing in them is recorded yet: nobody is to look for a branch in vain."""
    handle = trip.create("ada")
    drive(handle)

    assert str(handle.history()) == "\n".join(
        [
            "trip  checkpoint  completed",
            "bookings  join  running",
            "  flight  branch  completed",
            "    book  step  completed  1 attempt",
            "  hotel  branch  running",
            "    an hour  sleep  pending",
            "  car  branch  running",
        ]
    )
    assert handle.history()["bookings"].branches == ("flight", "car", "hotel")
    assert handle.history()["bookings/car"].children == []
    assert "bookings/car" not in [entry.path for entry in handle.history()]


def test_a_completed_join_has_the_outputs_of_its_branches(trip):
    """Which are shown as its children, in the order in which something happened in them."""
    handle = trip.create("ada")
    handle.send("cars", "van")
    drive(handle)
    advance(3600)
    drive(handle)

    history = handle.history()
    assert str(history) == "\n".join(
        [
            "trip  checkpoint  completed",
            "bookings  join  completed",
            "  flight  branch  completed",
            "    book  step  completed  1 attempt",
            "  car  branch  completed",
            "    choice  message  completed",
            "    book  step  completed  1 attempt",
            "  hotel  branch  completed",
            "    an hour  sleep  completed",
            "    book  step  completed  1 attempt",
        ]
    )
    assert history["bookings"].output == handle.output == {"flight": "flight-1", "car": "van-1", "hotel": "hotel-1"}
    assert history["bookings"].branches == ()


def test_a_failed_join_tells_which_branches_failed_and_what_was_undone(trip):
    """The rollbacks stand in the branches whose steps they undo."""
    handle = trip.create("ada")
    handle.send("cars", "limousine")
    drive(handle)
    advance(3600)
    drive(handle)

    assert str(handle.history()) == "\n".join(
        [
            "trip  checkpoint  completed",
            "bookings  join  failed",
            "  flight  branch  completed",
            "    book  step  completed  1 attempt",
            "    book  rolled back  1 attempt",
            "  car  branch  failed  CriticalError: no limousine left",
            "    choice  message  completed",
            "    book  step  failed  1 attempt  CriticalError: no limousine left",
            "  hotel  branch  completed",
            "    an hour  sleep  completed",
            "    book  step  completed  1 attempt",
            "    book  rolled back  1 attempt",
        ]
    )


@pytest.mark.parametrize("damaged", ["{", '"x"', "7", "{}", "[7]", "[[7]]", "[null]", "[[]]", None], ids=str)
def test_a_join_whose_record_is_damaged_can_still_be_read(trip, damaged):
    """Its branches are those that have something on record."""
    handle = trip.create("ada")
    drive(handle)
    Entry.objects.filter(actor_id=handle.id, path="bookings").update(output=damaged)

    assert [node.name for node in handle.history().tree()[-1].children] == ["flight", "hotel"]
