"""The page of one actor: how it stands, what it holds and what waits for it."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_rivet import Actor
from django_rivet.models import Entry, Message, WorkflowRun
from tests.admin.pages import read, text, url

pytestmark = pytest.mark.django_db


def test_a_page_tells_how_the_actor_stands(operator, trip, rivet):
    """Type, key, status and the error, without looking anything up."""
    handle = trip.create(("tenant-1", "order-9"))
    rivet.drive(handle)

    shown = text(read(operator, url(handle)))

    assert "Type tests.Trip Key tenant-1/order-9 Status failed" in shown
    assert "StepExhaustedError: step 'car' failed after 1 attempt: ConnectionError: no car to be had" in shown


def test_a_page_tells_what_the_workflow_waits_for(operator, checkout, sleeper, rivet):
    """A message of certain queues, or a point in time."""
    for_order, for_time = checkout.create("main"), sleeper.create("one")
    for handle in (for_order, for_time):
        rivet.drive(handle)

    assert "Waits for a message in orders" in text(read(operator, url(for_order)))
    assert "Wakes in 6 days" in text(read(operator, url(for_time)))


def test_a_page_tells_of_a_cancellation_that_is_not_heeded_yet(operator, sleeper, rivet):
    """A worker drives the actor; the operator sees that the request has arrived."""
    handle = sleeper.create("one")
    later = rivet.now() + timedelta(minutes=1)
    WorkflowRun.objects.filter(pk=handle.id).update(status="running", holder="host:1", lease_until=later)
    handle.cancel(rollback=True)

    shown = text(read(operator, url(handle)))

    assert "Status running asked to cancel and roll back" in shown
    assert "Worker host:1 lease until" in shown


def test_a_page_shows_state_input_and_result(operator, rivet):
    """As indented JSON, escaped."""

    class Report(Actor):
        class State:
            pages: int = 12

    handle = Report.create("monthly", {"month": "2026-11"})
    WorkflowRun.objects.filter(pk=handle.id).update(output='{"url":"https://reports.example"}')

    html = read(operator, url(handle))

    assert "{\n  &quot;pages&quot;: 12\n}" in html
    assert "{\n  &quot;month&quot;: &quot;2026-11&quot;\n}" in html
    assert "{\n  &quot;url&quot;: &quot;https://reports.example&quot;\n}" in html


def test_a_large_state_is_cut_for_display(operator):
    """The page says that there is more, and stays small."""

    class Hoarder(Actor):
        class State:
            items: list[str] = ["x" * 1000] * 900

    handle = Hoarder.create("one")

    html = read(operator, url(handle))

    assert "Only the beginning is shown." in html
    assert len(html) < 60_000


def test_waiting_messages_are_listed_in_their_order(operator, checkout, rivet):
    """Queue, body, and when a delayed one is due."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "order-1"}, idempotency_key="web-1")
    handle.send("orders", {"id": "order-2"}, delay=3600)

    shown = text(read(operator, url(handle)))

    _, _, messages = shown.partition("Waiting messages (2)")
    first, _, second = messages.partition("order-1")
    assert "idempotency key web-1" in first
    assert ", due 20" in second.partition("order-2")[0]


def test_only_the_first_messages_are_listed_and_all_are_counted(operator, checkout):
    """A full mailbox does not fill the page."""
    handle = checkout.create("main")
    for number in range(25):
        handle.send("orders", {"id": f"order-{number}"})

    html = read(operator, url(handle))

    assert "Waiting messages (25)" in html
    assert "Only the first 20 are shown." in html
    assert "order-19&quot;" in html
    assert "order-20&quot;" not in html


def test_handled_messages_do_not_wait(operator, checkout, rivet):
    """What the workflow took stands in its history, not in the mailbox."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "order-1"})
    rivet.drive(handle)

    assert Message.objects.get().status == "handled"
    assert "Waiting messages (0)" in read(operator, url(handle))


def test_the_number_of_statements_does_not_depend_on_what_the_actor_holds(operator, checkout, rivet):
    """One more entry, message or rollback costs no statement more."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "order-0"})
    rivet.drive(handle)
    few = _count(operator, handle)
    for number in range(1, 15):
        handle.send("orders", {"id": f"order-{number}"})
    handle.send("orders", {"id": "declined"})
    rivet.drive(handle)
    for number in range(15):
        handle.send("orders", {"id": f"order-{number}"})
    assert Entry.objects.count() > 60

    assert _count(operator, handle) == few
    assert few < 20


def test_a_class_without_a_workflow_has_a_page_too(operator):
    """It has a state, and no history."""

    class Counter(Actor):
        class State:
            count: int = 3

    shown = text(read(operator, url(Counter.create("one"))))

    assert "Status sleeping" in shown
    assert "Nothing is recorded yet." in shown


def test_an_unknown_instance_leads_back_to_the_list(operator):
    """A link to an actor that was destroyed is no error page."""
    response = operator.get(url("3d1f3a1e-0000-4000-8000-000000000000"), follow=True)

    assert "There is no actor with the instance id" in text(response.content.decode())


def test_what_is_overdue_is_said_on_the_page(operator, sleeper, rivet):
    """The first thing to look at is whether a worker runs."""
    handle = sleeper.create("one")
    rivet.advance(60)

    assert "Status pending overdue: is a worker running?" in text(read(operator, url(handle)))


def test_the_page_works_without_scripts_and_styles_inside(operator, trip, rivet):
    """A strict content security policy has nothing to block: the only style sheet is a file."""
    handle = trip.create("one")
    rivet.drive(handle)

    main = read(operator, url(handle)).partition("<main")[2].partition("</main>")[0]

    assert "<script" not in main
    assert "style=" not in main
    assert 'href="/static/django_rivet/admin.css"' in read(operator, url(handle))


def test_a_visitor_who_is_not_logged_in_sees_nothing(trip):
    """The page leads to the log-in."""
    response = Client().get(url(trip.create("one")))

    assert response.status_code == 302
    assert "/login/" in response["Location"]


def test_a_superuser_needs_no_permission_by_name(trip):
    """As everywhere in the admin."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    assert "tests.Trip" in read(client, url(trip.create("one")))


# Below: how it is done ---------------------------------------------------------------------------


def _count(client, handle):
    with CaptureQueriesContext(connection) as captured:
        read(client, url(handle))
    return len(captured)
