"""What an operator decides about a rollback handler that is out of attempts."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.test import Client

from django_rivet.models import Compensation, WorkflowRun
from tests.admin.pages import buttons, hidden, read, text, tree, url

pytestmark = pytest.mark.django_db

HANDLER_OPERATIONS = ("retry_handler", "skip_handler", "confirm_handler")


@pytest.fixture
def stuck(trip, rivet):
    """The rollback stands still at the flight."""
    trip.rollback_works = False
    handle = trip.create("one")
    assert rivet.drive(handle) == "rollback_failed"
    return handle


def failed():
    return {"handler": Compensation.objects.get().pk}


def test_a_page_shows_the_handlers_that_wait_for_a_decision(operator, stuck):
    """Step, handler and error in front, with a button for each way on."""
    html = read(operator, url(stuck))

    shown = text(html.partition('id="rivet-decisions"')[2].partition("</section>")[0])
    assert "flight self:cancel_flight 1 attempt CriticalError: the airline does not answer" in shown
    assert buttons(html)[3:] == ["Retry handler…", "Skip handler…", "Mark done…"]


def test_retry_gives_a_handler_fresh_attempts(operator, trip, stuck, rivet):
    """The rollback goes on with it, and comes to its end."""
    trip.rollback_works = True

    response = operator.post(url(stuck, "retry_handler"), failed())

    assert response["Location"] == url(stuck)
    assert _messages(response) == [("success", "The handler is tried again.")]
    assert _log() == ["Retry handler of step “flight”"]
    assert rivet.drive(stuck) == "failed"
    assert Compensation.objects.get().status == "completed"


@pytest.mark.parametrize(
    ("operation", "status", "word", "told"),
    [
        ("skip_handler", "skipped", "rollback skipped", "Skip handler of step “flight”: refunded by telephone"),
        ("confirm_handler", "confirmed", "rolled back by hand", "Mark done of step “flight”: refunded by telephone"),
    ],
)
def test_a_decision_is_kept_with_its_reason_and_who_it_was(operator, stuck, rivet, operation, status, word, told):
    """In the history, and in the log; the rollback goes on without that handler."""
    operator.post(url(stuck, operation), {**failed(), "text": "  refunded by telephone "})

    found = Compensation.objects.get()
    assert (found.status, found.note, found.decided_by) == (status, "refunded by telephone", "operator")
    assert _log() == [told]
    assert rivet.drive(stuck) == "failed"
    html = read(operator, url(stuck))
    assert f"flight  {word}  1 attempt  self:cancel_flight: refunded by telephone (operator)" in tree(html)
    assert "Retry handler…" not in buttons(html)


@pytest.mark.parametrize("operation", ["skip_handler", "confirm_handler"])
@pytest.mark.parametrize("words", ["", " \n ", "x" * 2001, "a\0b"])
def test_a_decision_without_words_to_read_is_asked_for_again(operator, stuck, operation, words):
    """Nothing has happened, and the form says what is missing."""
    response = operator.post(url(stuck, operation), {**failed(), "text": words})

    assert response.status_code == 200
    assert 'class="errorlist"' in response.content.decode()
    assert Compensation.objects.get().status == "failed"
    assert _log() == []


@pytest.mark.parametrize("operation", HANDLER_OPERATIONS)
def test_a_form_that_was_answered_twice_is_harmless(operator, trip, stuck, rivet, operation):
    """Also where the handler has failed once more meanwhile: nobody has looked at that."""
    form = {**failed(), "text": "why", "seen": hidden(read(operator, url(stuck, operation), **failed()), "seen")}
    assert form["seen"]

    operator.post(url(stuck, operation), form)
    rivet.drive(stuck)
    before = _rows()
    response = operator.post(url(stuck, operation), form)

    assert _messages(response)[-1][0] == "warning"
    assert _rows() == before
    assert len(_log()) == 1


@pytest.mark.parametrize("operation", HANDLER_OPERATIONS)
def test_what_is_refused_is_told_in_the_words_of_the_error(operator, stuck, rivet, operation):
    """A worker drives the actor at this moment: nothing is changed, and the operator learns why."""
    later = rivet.now().replace(year=rivet.now().year + 1)
    WorkflowRun.objects.update(holder="host:1", lease_until=later)

    response = operator.post(url(stuck, operation), {**failed(), "text": "why"})

    [(level, words)] = _messages(response)
    assert level == "error"
    assert words.startswith("Nothing was changed: a worker drives")
    assert "decide about the rollback of step 'flight' when it waits" in words
    assert Compensation.objects.get().status == "failed"
    assert _log() == []


@pytest.mark.parametrize("operation", HANDLER_OPERATIONS)
def test_a_handler_that_is_not_there_is_refused(operator, stuck, sleeper, operation):
    """One of another actor, none at all, and nonsense."""
    other = sleeper.create("other")

    for handle, wanted in ((other, failed()), (stuck, {}), (stuck, {"handler": "x"}), (stuck, {"handler": "9" * 30})):
        assert "this would change nothing" in text(read(operator, url(handle, operation), **wanted))
        response = operator.post(url(handle, operation), {**wanted, "text": "why"})
        assert _messages(response)[-1][0] == "error"
    assert Compensation.objects.get().status == "failed"
    assert _log() == []


@pytest.mark.parametrize("operation", HANDLER_OPERATIONS)
def test_no_get_decides_anything(operator, stuck, operation):
    """A link only ever asks."""
    before = _rows()

    assert "<form" in read(operator, url(stuck, operation), **failed(), text="why")

    assert _rows() == before
    assert _log() == []


@pytest.mark.parametrize("operation", HANDLER_OPERATIONS)
def test_a_forged_form_of_another_site_decides_nothing(operator, stuck, operation):
    """Without the token of the form the request is refused."""
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies

    assert strict.post(url(stuck, operation), {**failed(), "text": "why"}).status_code == 403
    assert Compensation.objects.get().status == "failed"


def test_a_rollback_that_is_over_offers_no_retry(operator, stuck):
    """What its handler left can still be skipped, or marked done."""
    operator.post(url(stuck, "cancel"))
    assert stuck.status == "cancelled"

    assert buttons(read(operator, url(stuck))) == ["Skip handler…", "Mark done…"]


# Below: how it is done ---------------------------------------------------------------------------


def _messages(response):
    return [(message.level_tag, str(message)) for message in get_messages(response.wsgi_request)]


def _log():
    return [entry.change_message for entry in LogEntry.objects.order_by("pk")]


def _rows():
    return list(Compensation.objects.values()), list(WorkflowRun.objects.values())
