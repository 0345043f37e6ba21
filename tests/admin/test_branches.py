"""Joins and races on an actor's page."""

import re

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.admin import history
from django_rivet.models import Entry
from tests.admin.pages import read, text, tree, url

pytestmark = pytest.mark.django_db


@pytest.fixture
def trip():
    """Books a flight at once and a hotel in an hour, while somebody chooses a car, which can be sold out."""

    class Trip(Actor):
        cars = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.join("bookings", {"flight": self.flight, "hotel": self.hotel, "car": self.car})

        def flight(self, branch):
            return branch.step("book", self.book, "flight", rollback=self.give_back)

        def hotel(self, branch):
            branch.sleep("an hour", 3600)
            return branch.step("book", self.book, "hotel", rollback=self.give_back)

        def car(self, branch):
            return branch.step("book", self.book, branch.queue.next("choice").body, rollback=self.give_back)

        def book(self, what):
            if what == "limousine":
                raise CriticalError("no limousine left")
            return f"{what}-1"

        def give_back(self, rollback, booking): ...

    return Trip


def drive_on(handle, rivet, choice):
    handle.send("cars", choice)
    rivet.drive(handle)
    rivet.advance(3600)
    rivet.drive(handle)


def test_a_join_under_way_shows_all_its_branches(operator, trip, rivet):
    """One that only waits for a message as well."""
    handle = trip.create("ada")
    rivet.drive(handle)

    html = read(operator, url(handle))

    drawn = re.sub(r"due  [-\d]+ [:\d]+", "due", tree(html))
    assert drawn == "\n".join(
        [
            "trip  checkpoint  completed",
            "bookings  join  running",
            '  flight  branch  completed  "flight-1"',
            '    book  step  completed  1 attempt  "flight-1"  would be rolled back',
            "  hotel  branch  running",
            "    an hour  sleep  pending  due",
            "  car  branch  running",
        ]
    )
    assert_anchors_are_unique(html)


def test_a_failed_join_shows_what_failed_and_what_was_undone(operator, trip, rivet):
    """Each rollback in the branch of its step."""
    handle = trip.create("ada")
    drive_on(handle, rivet, "limousine")

    html = read(operator, url(handle))

    assert tree(html) == "\n".join(
        [
            "trip  checkpoint  completed",
            "bookings  join  failed",
            '  flight  branch  completed  "flight-1"',
            '    book  step  completed  1 attempt  "flight-1"  rolled back',
            "    book  rolled back  1 attempt  self:give_back",
            '  hotel  branch  completed  "hotel-1"',
            "    an hour  sleep  completed",
            '    book  step  completed  1 attempt  "hotel-1"  rolled back',
            "    book  rolled back  1 attempt  self:give_back",
            "  car  branch  failed",
            "  CriticalError: no limousine left",
            "    choice  message  completed",
            "    book  step  failed  1 attempt",
            "    CriticalError: no limousine left",
        ]
    )
    assert "JoinError: join 'bookings' failed in a branch: car: CriticalError: no limousine left" in text(html)
    assert_anchors_are_unique(html)


def test_a_part_of_a_history_shows_no_branch_as_running_that_is_over(operator, trip, rivet, monkeypatch):
    """What became of it may stand in another part."""
    handle = trip.create("ada")
    rivet.drive(handle)
    newest = Entry.objects.filter(actor_id=handle.id).latest("seq")
    monkeypatch.setattr(history, "MAX_ENTRIES", 1)

    page = read(operator, url(handle))
    assert "flight  branch" not in tree(page)
    assert "car  branch" not in tree(page)
    older = read(operator, url(handle), before=newest.seq)
    assert "car  branch" not in tree(older)


def test_the_losers_of_a_race_are_told_calmly(operator, rivet):
    """They are over, and no reason to look: a turn with a race in it is folded like others."""

    class Desk(Actor):
        @workflow
        def run(self, ctx):
            for turn in ctx.loop("turns"):
                turn.step("price", int, "3")
                if turn.iteration == 4:
                    break

    handle = Desk.create("one")
    rivet.drive(handle)
    step = Entry.objects.get(actor_id=handle.id, path="turns/0/price")
    moments = {"started_at": step.started_at, "ended_at": step.ended_at, "generation": step.generation}
    for n, (path, kind, status) in enumerate(
        [
            ("turns/0/race", "race", "completed"),
            ("turns/0/race/provider", "branch", "completed"),
            ("turns/0/race/deadline", "branch", "cancelled"),
            ("turns/0/race/deadline/wait", "sleep", "cancelled"),
        ]
    ):
        Entry.objects.create(
            actor_id=handle.id, path=path, kind=kind, status=status, seq=100 + n, output='["x"]', **moments
        )
    Entry.objects.filter(path="turns/0/race/deadline/wait").update(ended_at=None, output=None, due_at=step.ended_at)
    Entry.objects.filter(path="turns/0/race/deadline").update(output=None)

    html = read(operator, url(handle))

    assert "\n".join(
        [
            "  iteration 0  completed",
            "    price  step  completed  1 attempt  3",
            "    race  race  completed",
            '      provider  branch  completed  ["x"]',
            "      deadline  branch  cancelled",
            "        wait  sleep  cancelled",
        ]
    ) in tree(html)
    assert '<span class="rivet-status rivet-plain">cancelled</span>' in html
    folded = re.search(r"<details( open)?><summary[^>]*>\s*<span[^>]*>\s*<bdi[^>]*>iteration 0<", html)
    assert folded is not None
    assert folded[1] is None


def assert_anchors_are_unique(html):
    """A page that is refreshed finds by them what the reader has folded."""
    anchors = re.findall(r'<li id="([^"]+)"', html)
    assert len(anchors) == len(set(anchors))
