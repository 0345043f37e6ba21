"""The overview: how all actors stand, each number leading to the actors behind it."""

from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_rivet.models import Actor as ActorRow
from django_rivet.models import Message, WorkflowRun
from tests.admin.pages import LIST, OVERVIEW, links, read, text, url

pytestmark = pytest.mark.django_db


def test_what_needs_somebody_stands_in_front_and_leads_to_it(operator, trip, sleeper, rivet):
    """Failed, rollback failed, diverged and overdue: each a number and the filtered list."""
    trip.rollback_works = False
    stuck = trip.create("stuck")
    rivet.drive(stuck)
    trip.rollback_works = True
    failed = trip.create("failed")
    rivet.drive(failed)
    diverged, late = sleeper.create("diverged"), sleeper.create("late")
    WorkflowRun.objects.filter(pk=diverged.id).update(status="diverged", due_at=None)
    WorkflowRun.objects.filter(pk=late.id).update(due_at=rivet.now() - timedelta(minutes=2))

    html = read(operator, OVERVIEW)

    for words, key in (
        ("1 rollback failed", "stuck"),
        ("1 failed", "failed"),
        ("1 diverged", "diverged"),
        ("1 overdue", "late"),
    ):
        assert _keys(operator, links(html)[words]) == [key]
    shown = text(html)
    assert "The most urgent rollback failed stuck tests.Trip" in shown
    assert "Overdue for the longest time pending late tests.Sleeper due for 0:02:00" in shown


def test_actors_are_counted_by_type_and_status(operator, trip, sleeper, rivet):
    """Each number of the table leads to those it counts."""
    for key in ("one", "two"):
        rivet.drive(trip.create(key))
    rivet.drive(sleeper.create("three"))
    sleeper.create("four").cancel()

    html = read(operator, OVERVIEW)

    table = text(html.partition('<table class="rivet-counts"')[2].partition("</table")[0].partition(">")[2])
    assert table == ("Type Actors sleeping failed cancelled tests. Sleeper 2 1 0 1 tests. Trip 2 0 2 0 All 4 1 2 1")
    row = html.partition("Trip</bdi></th>")[2].partition("</tr>")[0]
    addresses = [unescape(part.partition('"')[0]) for part in row.split('href="')[1:]]
    assert [_keys(operator, address) for address in addresses] == [["two", "one"], ["two", "one"]]


def test_an_actor_whose_message_no_worker_takes_is_overdue(operator, checkout, rivet):
    """It is found by the filter too, though it has no due time."""
    handle = checkout.create("main")
    rivet.drive(handle)
    handle.send("orders", {"id": "order-1"})
    past = rivet.now() - timedelta(minutes=2)
    Message.objects.update(visible_at=past)
    WorkflowRun.objects.update(updated_at=past)

    assert "1 overdue" in text(read(operator, OVERVIEW))
    assert "sleeping, overdue" in text(read(operator, f"{LIST}?overdue=1"))
    assert "Status sleeping overdue: is a worker running?" in text(read(operator, url(handle)))
    assert _keys(operator, f"{LIST}?overdue=1") == ["main"]
    assert _keys(operator, f"{LIST}?overdue=nonsense") == ["main"]
    handle.cancel()
    assert _keys(operator, f"{LIST}?overdue=1") == []


def test_with_nothing_there_the_overview_says_so(operator):
    """No actor, no trouble."""
    shown = text(read(operator, OVERVIEW))

    assert "0 rollback failed" in shown
    assert "There is no actor yet." in shown
    assert "The most urgent" not in shown


@pytest.mark.parametrize(
    "address", [OVERVIEW, f"{LIST}?overdue=1", f"{LIST}?run__status__exact=failed&type=tests.Trip"]
)
def test_the_number_of_statements_does_not_depend_on_how_many_there_are(operator, trip, sleeper, rivet, address):
    """For ten actors as for a million."""
    rivet.drive(trip.create("first"))
    past = rivet.now() - timedelta(minutes=2)
    sleeper.create("late")
    WorkflowRun.objects.filter(status="pending").update(due_at=past)
    few = _statements(operator, address)
    for number in range(12):
        rivet.drive(trip.create(f"more-{number}"))
        sleeper.create(f"late-{number}")
    WorkflowRun.objects.filter(status="pending").update(due_at=past)
    ActorRow.objects.filter(key="more-1").update(type="gone.Trip")

    assert _statements(operator, address) == few
    assert few < 20


def test_the_way_to_the_overview_is_short(operator):
    """From the front page of the app, and from the list."""
    for address in ("/admin/django_rivet/", LIST):
        assert f'href="{OVERVIEW}"' in read(operator, address)


# Below: how it is done ---------------------------------------------------------------------------


def _keys(client, address):
    return [actor.key for actor in client.get(address).context["cl"].result_list]


def _statements(client, address):
    with CaptureQueriesContext(connection) as captured:
        read(client, address)
    return len(captured)
