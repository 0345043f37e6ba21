"""The time line beside the history."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils.translation import override

from django_rivet.admin.timeline import Timeline
from django_rivet.runtime.history_view import HistoryEntry, RollbackRecord
from tests.admin.pages import read, url

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def entry(path, start, end, status="completed", kind="step", undo=None):
    rollback = RollbackRecord(undo[0], 1, None, "self:undo", "completed", at(undo[1]), at(undo[2])) if undo else None
    ended = at(end) if end is not None else None
    return HistoryEntry(path, kind, status, 1, started_at=at(start), ended_at=ended, rollback=rollback)


def drawn(timeline, node):
    return [(bar.kind, int(bar.x), int(bar.width)) for bar in timeline.bars(node)]


def test_bars_are_drawn_to_one_scale_with_the_rollback_behind_its_step():
    """Ten seconds are the whole width; a step and its undoing stand in the same row."""
    flight = entry("flight", 0, 2, undo=("completed", 8, 10))
    hotel = entry("hotel", 2, 4, undo=("failed", 6, 7))
    car = entry("car", 4, 6, status="failed")
    tour = entry("tour", 4, 5, undo=("skipped", 7, 8))
    timeline = Timeline([flight, hotel, car, tour], until=at(60))

    assert drawn(timeline, flight) == [("work", 0, 200), ("undo", 800, 200)]
    assert drawn(timeline, hotel) == [("work", 200, 200), ("error", 600, 100)]
    assert drawn(timeline, car) == [("error", 400, 200)]
    assert drawn(timeline, tour) == [("work", 400, 100), ("error", 700, 100)]
    assert timeline.shown_length == "10.0 s"


def test_what_is_not_over_reaches_to_the_present():
    """So the line moves while one looks."""
    nap = entry("nap", 0, None, status="pending", kind="sleep")

    assert drawn(Timeline([nap], until=at(5)), nap) == [("wait", 0, 1000)]
    assert Timeline([nap], until=at(5)).shown_length == "5.0 s"


def test_a_branch_reaches_from_the_first_moment_in_it():
    """It has a record of its end only; one that is still running has none."""
    steps = [entry("join/flight/ask", 2, 4), entry("join/flight/book", 4, 7)]
    done = HistoryEntry("join/flight", "branch", "completed", ended_at=at(8), children=steps)
    running = HistoryEntry("join/hotel", "branch", "running", children=[entry("join/hotel/book", 1, None, "running")])
    waiting = HistoryEntry("join/car", "branch", "running")
    join = entry("join", 0, None, status="running", kind="join")
    join.children.extend([done, running, waiting])
    timeline = Timeline([join], until=at(10))

    assert drawn(timeline, join) == [("scope", 0, 1000)]
    assert drawn(timeline, done) == [("scope", 200, 600)]
    assert drawn(timeline, running) == [("scope", 100, 900)]
    assert drawn(timeline, waiting) == []


def test_what_failed_in_a_join_is_drawn_thicker_than_the_join():
    """The eye is led to the step, not to what stands around it."""
    step = entry("join/car/book", 2, 3, status="failed")
    branch = HistoryEntry("join/car", "branch", "failed", ended_at=at(3), children=[step])
    join = entry("join", 0, 4, status="failed", kind="join")
    join.children.append(branch)
    timeline = Timeline([join], until=at(60))

    assert [(bar.kind, bar.is_thin) for node in (join, branch, step) for bar in timeline.bars(node)] == [
        ("error", True),
        ("error", True),
        ("error", False),
    ]


def test_what_lost_a_race_is_over():
    """It is no failure, and does not go on to the present."""
    nap = entry("race/deadline/nap", 0, None, status="cancelled", kind="sleep")
    loser = HistoryEntry("race/deadline", "branch", "cancelled", ended_at=at(4), children=[nap])
    race = entry("race", 0, 5, kind="race")
    race.children.append(loser)
    timeline = Timeline([race], until=at(60))

    assert timeline.shown_length == "5.0 s"
    assert drawn(timeline, race) == [("scope", 0, 1000)]
    assert drawn(timeline, loser) == [("wait", 0, 800)]
    assert drawn(timeline, nap) == [("wait", 0, 8)]


def test_what_took_no_time_can_still_be_seen():
    """Also at the very end."""
    first, last = entry("first", 0, 0), entry("last", 100, 100)
    timeline = Timeline([first, last], until=at(100))

    assert drawn(timeline, first) == [("work", 0, 8)]
    assert drawn(timeline, last) == [("work", 992, 8)]


@pytest.mark.parametrize("nodes", [[], [entry("only", 0, 0)], [HistoryEntry("pending", "step", "pending")]])
def test_where_no_time_has_passed_nothing_is_drawn(nodes):
    """An empty history, or a single instant."""
    timeline = Timeline(nodes, until=at(0))

    assert not timeline.is_drawn
    assert [timeline.bars(node) for node in nodes] == [[] for _ in nodes]


def test_clocks_that_went_backwards_break_no_drawing():
    """A record whose end lies before its start."""
    odd, long = entry("odd", 5, 3), entry("long", 0, 10)
    timeline = Timeline([odd, long], until=at(10))

    assert drawn(timeline, odd) == [("work", 500, 8)]


@pytest.mark.django_db
def test_the_page_draws_it_as_attributes_whatever_the_language(operator, trip, rivet, settings):
    """A strict content security policy has nothing to block, and no number gets a comma."""
    settings.USE_THOUSAND_SEPARATOR = True
    handle = trip.create("one")
    rivet.drive(handle)

    with override("de"):
        html = read(operator, url(handle))

    line = html.partition('rivet-name">car<')[2].partition("</svg>")[0]
    x, width = (line.partition(f' {name}="')[2].partition('"')[0] for name in ("x", "width"))
    assert 'class="rivet-error"' in line
    assert x.isdigit()
    assert width.isdigit()
