"""The list of actors."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_rivet.models import Actor as ActorRow
from django_rivet.models import WorkflowRun
from tests.admin.pages import LIST, read, text

pytestmark = pytest.mark.django_db


def test_an_actor_is_listed_with_type_key_status_and_error(operator, trip, rivet):
    """An operator sees at a glance which actor failed, and why."""
    rivet.drive(trip.create(("tenant-1", "order-9")))

    shown = text(read(operator, LIST))

    assert (
        "tenant-1/order-9 tests. Trip failed StepExhaustedError: step 'car' failed after 1 attempt: "
        "ConnectionError: no car to be had just now" in shown
    )


def test_a_list_can_be_narrowed_to_a_status_and_a_type(operator, trip, sleeper, rivet):
    """Filters leave what was asked for."""
    for handle in (trip.create("one"), sleeper.create("two"), sleeper.create("three")):
        rivet.drive(handle)

    assert _keys(operator, run__status__exact="failed") == ["one"]
    assert _keys(operator, type="tests.Sleeper") == ["three", "two"]
    assert _keys(operator, type="tests.Sleeper", run__status__exact="failed") == []
    assert _keys(operator, type="nothing\0like it") == []


def test_the_type_filter_knows_types_whose_class_is_gone(operator, sleeper):
    """What a deploy has left behind can still be found."""
    sleeper.create("one")
    ActorRow.objects.update(type="gone.Forgotten")

    assert "gone.Forgotten" in text(read(operator, LIST)).partition("By type")[2]
    assert _keys(operator, type="gone.Forgotten") == ["one"]


def test_search_finds_keys_by_their_beginning(operator, sleeper):
    """A prefix, also one with spaces in it; not a word from the middle."""
    for key in ("order 91", "order 92", "reorder 91"):
        sleeper.create(key)

    assert _keys(operator, q="order 9") == ["order 92", "order 91"]
    assert _keys(operator, q="91") == []
    assert _keys(operator, q="100%") == []


def test_search_finds_an_actor_by_its_instance_id(operator, sleeper):
    """The id that stands in a log line leads to the actor."""
    handle = sleeper.create("one")
    sleeper.create("two")

    assert _keys(operator, q=handle.id) == ["one"]


def test_the_number_of_statements_does_not_depend_on_the_number_of_actors(operator, sleeper):
    """Neither a query per row, nor a count per filter."""
    sleeper.create("first")
    few = _statements(operator)
    for number in range(30):
        sleeper.create(f"more-{number}")

    assert _statements(operator) == few
    assert len(few) < 12
    counts = [sql for sql in few if "COUNT(" in sql.upper()]
    assert sum('FROM "django_rivet_actor"' in sql for sql in counts) == 1
    # The others count what workers hold just now.
    assert all('"holder" IS NOT NULL' in sql for sql in counts if 'FROM "django_rivet_actor"' not in sql)
    assert not any("DISTINCT" in sql.upper() for sql in few)


def test_the_list_does_not_read_what_may_be_large(operator, sleeper):
    """A page of actors with a megabyte of state each stays small."""
    sleeper.create("first")

    assert not any('"state"' in sql or '"output"' in sql for sql in _statements(operator))


def test_an_actor_that_no_worker_takes_is_overdue(operator, sleeper, rivet):
    """Nobody drives this project: the operator is told, and not before a sweep would have found it."""
    handle = sleeper.create("one")
    assert "pending, overdue" not in read(operator, LIST)

    due = rivet.now() - timedelta(minutes=1)
    WorkflowRun.objects.filter(pk=handle.id).update(due_at=due)

    assert "pending, overdue" in read(operator, LIST)


def test_an_actor_whose_worker_died_is_overdue(operator, sleeper, rivet):
    """Its lease is long over and nobody has taken it."""
    handle = sleeper.create("one")
    past = rivet.now() - timedelta(minutes=1)
    WorkflowRun.objects.filter(pk=handle.id).update(status="running", holder="host:1", lease_until=past)

    assert "running, overdue" in read(operator, LIST)


# Below: how it is done ---------------------------------------------------------------------------


def _keys(client, **query):
    response = client.get(LIST, query)
    assert response.status_code == 200
    return [actor.key for actor in response.context["cl"].result_list]


def _statements(client):
    with CaptureQueriesContext(connection) as captured:
        read(client, LIST)
    return [_without_values(query["sql"]) for query in captured]


def _without_values(sql):
    return " ".join(word for word in sql.split() if not any(c.isdigit() for c in word) and "'" not in word)
