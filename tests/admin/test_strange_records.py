"""What later code cannot read any more can still be looked at, and ended."""

import pytest

from django_rivet import Actor
from django_rivet.models import Actor as ActorRow
from django_rivet.models import Compensation, Entry, Message, WorkflowRun
from tests.admin.pages import LIST, read, text, tree, url

pytestmark = pytest.mark.django_db


def test_an_actor_whose_class_is_gone_has_a_page(operator, checkout, rivet):
    """History, state and messages as they are stored."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "order-1"})
    rivet.drive(handle)
    handle.send("orders", {"id": "order-2"})
    ActorRow.objects.update(type="gone.Checkout")

    html = read(operator, url(handle))

    assert "Type gone.Checkout not registered in this process; shown as it is stored" in text(html)
    assert "{\n  &quot;completed&quot;: 1\n}" in html
    assert "&quot;order-2&quot;" in html
    assert "reserve  step  completed" in tree(html)


def test_an_actor_whose_class_is_gone_can_be_cancelled(operator, sleeper, rivet):
    """Else it would wait for ever."""
    handle = sleeper.create("one")
    ActorRow.objects.update(type="gone.Sleeper")

    operator.post(url(handle, "cancel"))

    assert WorkflowRun.objects.get().status == "cancelled"


def test_a_state_that_does_not_fit_its_class_any_more_is_shown_with_the_reason(operator):
    """The stored JSON, and what is wrong with it."""

    class Counter(Actor):
        class State:
            count: int = 0

    handle = Counter.create("one")
    ActorRow.objects.update(state='{"count":"many"}')

    html = read(operator, url(handle))

    assert "&quot;count&quot;: &quot;many&quot;" in html
    assert "It does not fit the class any more: state.count" in text(html)


@pytest.mark.parametrize("stored", ['{"$later":1}', "{not json", "", "NaN", "[" * 5000, '"\\ud800"'])
def test_a_value_that_cannot_be_decoded_is_shown_as_it_stands(operator, trip, rivet, stored):
    """In whatever column it stands."""
    trip.rollback_works = False
    handle = trip.create("one", {"from": "here"})
    rivet.drive(handle)
    ActorRow.objects.update(state=stored, input=stored)
    WorkflowRun.objects.update(output=stored, error=stored)
    Entry.objects.update(output=stored, error=stored)
    Compensation.objects.update(error=stored, output=stored, args=stored)
    Message.objects.create(
        actor_id=handle.id, queue="orders", body=stored, created_at=rivet.now(), visible_at=rivet.now()
    )

    html = read(operator, url(handle))

    assert "Unreadable error record" in html
    assert "flight  step  completed" in tree(html)
    assert "Unreadable error record" in read(operator, LIST)


def test_an_error_with_odd_fields_is_shown(operator, trip, rivet):
    """Whatever JSON stands there."""
    handle = trip.create("one")
    rivet.drive(handle)
    WorkflowRun.objects.update(error='{"name":5,"message":["a","b"]}')

    assert "5: [&#x27;a&#x27;, &#x27;b&#x27;]" in read(operator, url(handle))
