"""The history on an actor's page."""

import json

import pytest

from django_rivet import Actor, workflow
from django_rivet.models import Compensation, Entry
from tests.admin.pages import read, text, tree, url

pytestmark = pytest.mark.django_db


def test_a_rolled_back_order_is_drawn_where_it_happened(operator, checkout, rivet):
    """Entries in a tree; what was undone stands after what made that necessary."""
    handle = checkout.create("main")
    for order in ("order-1", "declined"):
        handle.send("orders", {"id": order})
    rivet.drive(handle)

    assert tree(read(operator, url(handle))) == "\n".join(
        [
            "checkout  loop  running",
            "  iteration 0  completed",
            "    wait-order  message  completed",
            "    order  block  completed",
            "      order  checkpoint  completed",
            '      reserve  step  completed  1 attempt  "reserve-order-1"',
            "      charge  step  completed  1 attempt",
            "  iteration 1  completed",
            "    wait-order  message  completed",
            "    order  block  failed",
            "    CriticalError: the card was declined",
            "      order  checkpoint  completed",
            '      reserve  step  completed  1 attempt  "reserve-declined"  rolled back',
            "      charge  step  failed  1 attempt",
            "      CriticalError: the card was declined",
            "      reserve  rolled back  1 attempt  self:release",
        ]
    )


def test_a_rollback_of_the_whole_workflow_stands_at_its_end(operator, trip, rivet):
    """Also where the steps stand in no block."""
    handle = trip.create("one")
    rivet.drive(handle)

    assert tree(read(operator, url(handle))) == "\n".join(
        [
            "trip  checkpoint  completed",
            "flight  step  completed  1 attempt  rolled back",
            "car  step  failed  1 attempt",
            "ConnectionError: no car to be had",
            "flight  rolled back  1 attempt  self:cancel_flight",
        ]
    )


def test_the_printed_history_tells_of_that_rollback_too(trip, rivet):
    """The page and ``str(handle.history())`` tell the same story."""
    handle = trip.create("one")
    rivet.drive(handle)

    assert "flight  rolled back  1 attempt" in str(handle.history())


def test_a_rollback_that_failed_shows_its_error_and_what_is_still_owed(operator, trip, rivet):
    """An operator sees what is undone, what is not, and why."""
    trip.rollback_works = False
    handle = trip.create("one")
    rivet.drive(handle)

    html = read(operator, url(handle))

    assert tree(html).splitlines()[-2:] == [
        "flight  rollback failed  1 attempt  self:cancel_flight",
        "CriticalError: the airline does not answer",
    ]
    assert "Rollback 1 step would be rolled back" in text(html)


def test_a_step_that_would_be_rolled_back_says_so(operator, trip, rivet):
    """Before anything has gone wrong."""

    class Booking(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("booking")
            ctx.step("room", self.room, rollback=self.give_back)
            ctx.sleep("stay", 60)

        def room(self): ...

        def give_back(self, rollback, output): ...

    handle = Booking.create("one")
    rivet.drive(handle)

    assert "room  step  completed  1 attempt  would be rolled back" in tree(read(operator, url(handle)))


def test_a_failed_step_has_its_traceback_behind_a_summary(operator, trip, rivet):
    """It is there, and in nobody's way."""
    handle = trip.create("one")
    rivet.drive(handle)

    html = read(operator, url(handle))

    step = html.partition('rivet-name">car<')[2]
    assert "<details" in step.partition("Traceback (most recent call last)")[0]
    assert "in car" in step


def test_a_step_that_will_be_tried_again_says_when(operator, rivet):
    """Attempts, error and the next attempt's time."""

    class Flaky(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("call", self.call, retry_backoff_base=60)

        def call(self):
            raise ConnectionError("busy")

    handle = Flaky.create("one")
    rivet.drive(handle)

    first, second = tree(read(operator, url(handle))).splitlines()
    assert first.startswith("call  step  retrying  1 attempt  due  20")
    assert second == "ConnectionError: busy"


def test_an_earlier_generation_can_be_read(operator, trip, rivet):
    """``recover()`` sets records aside, and the page still leads to them."""
    handle = trip.create("one")
    rivet.drive(handle)
    before = tree(read(operator, url(handle)))
    trip.repaired = True
    handle.recover()
    rivet.drive(handle)

    now = read(operator, url(handle))
    earlier = read(operator, url(handle), generation="0")

    assert tree(now) == "\n".join(
        [
            "trip  checkpoint  completed",
            "flight  step  completed  1 attempt",
            "car  step  completed  1 attempt",
        ]
    )
    assert 'href="?generation=0"' in now
    assert tree(earlier) == before
    assert "An earlier generation" in earlier


@pytest.mark.parametrize("query", [{"generation": "7"}, {"generation": "-1"}, {"generation": "x"}, {"before": "٣x"}])
def test_a_part_of_the_history_that_is_not_there_is_not_found(operator, trip, query):
    """Not silently the current one."""
    assert operator.get(url(trip.create("one")), query).status_code == 404


def test_a_very_long_history_is_shown_in_parts(operator, checkout, rivet):
    """The newest entries with the scopes around them; older ones behind a link; each exactly once."""
    handle = checkout.create("main")
    rivet.drive(handle)
    start = Entry.objects.get(actor_id=handle.id, path="checkout").seq + 1
    Entry.objects.bulk_create(
        Entry(actor_id=handle.id, path=f"checkout/{n}/step-{n}", kind="step", status="completed", seq=start + n)
        for n in range(1100)
    )

    pages = [read(operator, url(handle))]
    while "Older entries" in pages[-1]:
        pages.append(read(operator, url(handle), before=_older(pages[-1])))

    steps = [[w for w in tree(page).split() if w.startswith("step-")] for page in pages]
    assert [len(each) for each in steps] == [500, 500, 100]
    assert steps[0][-1] == "step-1099"
    assert sorted(name for each in steps for name in each) == sorted(f"step-{n}" for n in range(1100))
    assert all(tree(page).startswith("checkout  loop  running") for page in pages)


def test_a_long_history_of_failures_has_a_page_of_bounded_size(operator, sleeper):
    """Of very many errors only the newest are shown with their traceback."""
    handle = sleeper.create("one")
    error = json.dumps({"name": "E", "message": "m" * 9000, "stack": "s" * 20_000})
    Entry.objects.bulk_create(
        Entry(actor_id=handle.id, path=f"step-{n}", kind="step", status="failed", seq=n, error=error)
        for n in range(200)
    )

    html = read(operator, url(handle))

    assert html.count("E: mmmm") >= 200
    assert html.count("s" * 20_000) == 50
    assert len(html) < 4_000_000


def test_older_iterations_are_folded_and_those_with_trouble_are_not(operator, checkout, rivet):
    """The eye falls on what matters."""
    handle = checkout.create("main")
    for order in ("declined", "a", "b", "c", "d"):
        handle.send("orders", {"id": order})
    rivet.drive(handle)

    html = read(operator, url(handle))

    opened = [_is_open(html, f"iteration {number}") for number in range(5)]
    assert opened == [True, False, True, True, True]


def test_what_a_settled_step_registered_is_not_shown(operator, checkout, rivet):
    """Its order is through: nothing of it will ever be undone."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "order-1"})
    rivet.drive(handle)

    assert Compensation.objects.get().status == "settled"
    assert "rolled back" not in tree(read(operator, url(handle)))


# Below: how it is done ---------------------------------------------------------------------------


def _older(html):
    return html.partition("before=")[2].partition('"')[0]


def _is_open(html, name):
    before = html.partition(f'rivet-name">{name}<')[0]
    return before.rpartition("<details")[2].startswith(" open")
