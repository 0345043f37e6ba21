"""The buttons: what they do, what they leave behind, and what they never do."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.core import serializers
from django.db import OperationalError
from django.test import Client

from django_rivet.models import Actor, Compensation, Entry, WorkflowRun
from tests.admin.pages import buttons, hidden, read, text, url

pytestmark = pytest.mark.django_db

OPERATIONS = ("recover", "pause", "resume", "cancel", "cancel_rollback")


def test_recover_lets_a_failed_workflow_go_on(operator, trip, rivet):
    """It is due at once, the operator is told, and the log says who did it."""
    handle = trip.create("one")
    rivet.drive(handle)
    trip.repaired = True

    response = operator.post(url(handle, "recover"))

    assert response["Location"] == url(handle)
    assert _messages(response) == [("success", "The workflow was recovered and goes on.")]
    assert _log() == [("operator", handle.id, "tests.Trip one", "Recover")]
    assert rivet.drive(handle) == "completed"


def test_cancel_ends_a_workflow(operator, sleeper, rivet):
    """At once where nobody drives it."""
    handle = sleeper.create("one")
    rivet.drive(handle)

    response = operator.post(url(handle, "cancel"))

    assert [level for level, _ in _messages(response)] == ["success"]
    assert handle.status == "cancelled"
    assert [entry[3] for entry in _log()] == ["Cancel"]


def test_cancel_and_roll_back_undoes_the_steps_first(operator, trip, rivet):
    """A rollback that had failed is tried again, and then the workflow is cancelled."""
    trip.rollback_works = False
    handle = trip.create("one")
    assert rivet.drive(handle) == "rollback_failed"
    trip.rollback_works = True

    response = operator.post(url(handle, "cancel_rollback"))

    assert [level for level, _ in _messages(response)] == ["success"]
    assert [entry[3] for entry in _log()] == ["Cancel and roll back"]
    assert rivet.drive(handle) == "cancelled"
    assert Compensation.objects.get().status == "completed"


def test_pause_holds_a_workflow_and_resume_lets_it_go_on(operator, trip, rivet):
    """A second click is no second event: neither for the workflow nor for the log."""
    handle = trip.create("one")

    for _ in range(2):
        response = operator.post(url(handle, "pause"))
    assert [level for level, _ in _messages(response)] == ["success", "warning"]
    assert handle.status == "paused"
    assert "Status paused was pending" in text(read(operator, url(handle)))
    rivet.drive(handle)
    assert handle.status == "paused"

    for _ in range(2):
        operator.post(url(handle, "resume"))
    assert rivet.drive(handle) == "failed"
    assert [entry[3] for entry in _log()] == ["Pause", "Resume"]


def test_a_pause_that_is_not_heeded_yet_can_be_taken_back(operator, sleeper, rivet):
    """While a worker drives the actor the page says that the request has arrived, and offers the way back."""
    handle = sleeper.create("one")
    later = rivet.now() + timedelta(minutes=1)
    WorkflowRun.objects.filter(pk=handle.id).update(status="running", holder="host:1", lease_until=later)

    operator.post(url(handle, "pause"))

    html = read(operator, url(handle))
    assert "Status running asked to pause" in text(html)
    assert buttons(html)[0] == "Resume…"


def test_a_form_that_was_answered_twice_recovers_once(operator, trip, rivet):
    """The workflow has failed again meanwhile: that failure nobody has looked at."""
    handle = trip.create("one")
    rivet.drive(handle)
    form = {"seen": hidden(read(operator, url(handle, "recover")), "seen")}
    assert form["seen"]

    operator.post(url(handle, "recover"), form)
    assert rivet.drive(handle) == "failed"
    response = operator.post(url(handle, "recover"), form)

    level, words = _messages(response)[-1]
    assert level == "warning"
    assert words == "Nothing was changed: something has happened since you were asked. Look again, please."
    assert handle.status == "failed"
    assert [entry[3] for entry in _log()] == ["Recover"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_the_status_does_not_allow_changes_nothing_and_says_so(operator, sleeper, rivet, operation):
    """A second click, or one on a page that is out of date."""
    handle = sleeper.create("one")
    handle.cancel()
    before = _rows()

    response = operator.post(url(handle, operation))

    [(level, words)] = _messages(response)
    assert level == "warning"
    assert words.startswith("Nothing was changed: the status of the workflow does not allow")
    assert _rows() == before
    assert _log() == []


def test_an_actor_that_was_destroyed_meanwhile_is_reported(operator, sleeper):
    """Not an error page: the list, and what happened."""
    handle = sleeper.create("one")
    address = url(handle, "cancel")
    Actor.objects.all().delete()

    response = operator.post(address)

    [(level, words)] = _messages(response)
    assert level == "warning"
    assert "perhaps it was destroyed" in words


def test_a_database_that_is_busy_is_reported(operator, sleeper, monkeypatch):
    """The operator knows that nothing has happened, and may try again."""
    handle = sleeper.create("one")

    def locked(*_):
        raise OperationalError("database is locked")

    monkeypatch.setattr("django_rivet.admin.asking.operate", locked)
    response = operator.post(url(handle, "cancel"))

    assert _messages(response) == [("error", "Nothing was changed, the database was busy: database is locked")]
    assert response["Location"] == url(handle)


def test_the_buttons_fit_the_status(operator, trip, sleeper, rivet):
    """What would have no effect is not offered."""
    failed, asleep, paused, ended = trip.create("1"), sleeper.create("2"), sleeper.create("3"), sleeper.create("4")
    rivet.drive(failed)
    paused.pause()
    ended.cancel()

    assert buttons(read(operator, url(failed))) == ["Recover…", "Cancel…", "Cancel and roll back…"]
    assert buttons(read(operator, url(asleep))) == ["Pause…", "Cancel…", "Cancel and roll back…"]
    assert buttons(read(operator, url(paused))) == ["Resume…", "Cancel…", "Cancel and roll back…"]
    assert buttons(read(operator, url(ended))) == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_get_changes_anything(operator, trip, rivet, operation):
    """A link, a preview or a prefetch only ever asks."""
    handle = trip.create("one")
    if operation == "resume":
        handle.pause()
    elif operation != "pause":
        rivet.drive(handle)
    before = _rows()

    html = read(operator, url(handle, operation))
    read(operator, url(handle))

    assert '<form method="post">' in html
    assert _rows() == before
    assert _log() == []


def test_the_question_before_a_cancellation_counts_what_it_leaves_undone(operator, trip, rivet):
    """An operator must not lose a rollback by accident."""
    trip.rollback_works = False
    handle = trip.create("one")
    rivet.drive(handle)

    assert "1 step has a rollback handler that will not run." in text(read(operator, url(handle, "cancel")))
    assert "1 step will be rolled back." in text(read(operator, url(handle, "cancel_rollback")))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_forged_form_of_another_site_does_nothing(trip, operator, rivet, operation):
    """Without the token of the form the request is refused."""
    handle = trip.create("one")
    rivet.drive(handle)
    before = _rows()
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies

    response = strict.post(url(handle, operation))

    assert response.status_code == 403
    assert _rows() == before


@pytest.mark.parametrize("method", ["put", "delete", "patch"])
def test_other_methods_are_refused(operator, sleeper, method):
    """There is one way to ask, and one to do."""
    handle = sleeper.create("one")

    assert getattr(operator, method)(url(handle, "cancel")).status_code == 405


def test_the_log_of_an_actor_can_be_read(operator, sleeper, rivet):
    """Who did what, on Django's own page."""
    handle = sleeper.create("one")
    operator.post(url(handle, "cancel"))

    shown = text(read(operator, url(handle, "history")))

    assert "operator Cancel" in shown


# Below: how it is done ---------------------------------------------------------------------------


def _messages(response):
    return [(message.level_tag, str(message)) for message in get_messages(response.wsgi_request)]


def _log():
    entries = LogEntry.objects.order_by("pk").select_related("user")
    return [(e.user.username, e.object_id, e.object_repr, e.get_change_message()) for e in entries]


def _rows():
    return [serializers.serialize("json", model.objects.order_by("pk")) for model in (Actor, WorkflowRun, Entry)]
