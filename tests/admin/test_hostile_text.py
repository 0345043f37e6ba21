"""Text from outside stays text, on every page."""

from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.utils.html import escape

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.models import Actor as ActorRow
from django_rivet.models import Compensation
from tests.admin.pages import LIST, OVERVIEW, read, url

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"
IMAGE = "</pre></code></textarea><img src=x onerror=alert(1)>"
LINK = "javascript:alert(1)"
TEMPLATE = "{{ 'inert'|upper }}{% now 'Y' %}"
REVERSED = "\u202egpj.exe\u2066\u200f"
HOSTILE = SCRIPT + IMAGE + LINK + TEMPLATE + REVERSED
NAME = HOSTILE.replace("/", "|")
"""As a step's name or one part of a key: those hold no slash."""


@pytest.fixture
def hostile(_isolated, rivet):
    """Hostile text wherever a user, a message or an outside service can put it."""

    class Victim(Actor):
        class State:
            note: str = HOSTILE

        orders = Queue(dict)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("undo")
            ctx.step(NAME, self.echo, rollback=self.undo)
            ctx.queue.next(f"wait {NAME}", names=["orders"])
            ctx.get_version(f"version {NAME}", 2)
            ctx.step(f"fail {NAME}", self.fail)

        def echo(self):
            return {HOSTILE: HOSTILE}

        def undo(self, rollback, output):
            raise CriticalError(HOSTILE)

        def fail(self):
            raise type(SCRIPT, (CriticalError,), {})(HOSTILE)

    handle = Victim.create(tuple(HOSTILE.split("/")), {"input": HOSTILE})
    handle.send("orders", {"note": HOSTILE})
    handle.send("orders", {"note": HOSTILE}, idempotency_key=SCRIPT + IMAGE)
    assert rivet.drive(handle) == "rollback_failed"
    return handle


@pytest.mark.parametrize("page", ["change", "history", "recover", "pause", "resume", "cancel", "cancel_rollback"])
def test_the_pages_of_an_actor_show_it_as_text(operator, hostile, page):
    """Page, log and questions."""
    html = read(operator, url(hostile, page))

    _is_harmless(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


@pytest.mark.parametrize("page", ["retry_handler", "skip_handler", "confirm_handler"])
def test_the_questions_about_its_handlers_show_it_as_text(operator, hostile, page):
    """Also where the reason is missing, and where what the address names is no handler."""
    failed = {"handler": Compensation.objects.get().pk}

    html = read(operator, url(hostile, page), **failed)
    _is_harmless(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    _is_harmless(operator.post(url(hostile, page), {**failed, "text": " "}, follow=True).content.decode())
    _is_harmless(read(operator, url(hostile, page), handler=HOSTILE))
    again = operator.post(url(hostile, page), {"handler": HOSTILE, "text": HOSTILE, "seen": HOSTILE}, follow=True)
    _is_harmless(again.content.decode())


def test_what_is_asked_for_again_and_again_is_text_too(operator, hostile):
    """The part of a page that is fetched while somebody looks."""
    for address in (url(hostile), OVERVIEW):
        html = operator.get(address, headers={"X-Rivet-Live": "1"}).content.decode()
        _is_harmless(html)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_the_overview_shows_it_as_text(operator, hostile):
    """Types, keys and errors of those that need somebody."""
    ActorRow.objects.update(type=HOSTILE[:200])

    html = read(operator, OVERVIEW)

    _is_harmless(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_a_reason_and_who_gave_it_are_text_on_every_page(operator, hostile):
    """In the history, in the message and in the log; the head of the page is Django's own."""
    User.objects.filter(username="operator").update(username=f"{SCRIPT}{REVERSED}")
    failed = {"handler": Compensation.objects.get().pk}

    after = operator.post(url(hostile, "skip_handler"), {**failed, "text": HOSTILE}, follow=True).content.decode()

    assert Compensation.objects.get().note == HOSTILE
    assert f"({SCRIPT}" in unescape(after)
    assert "\\u202egpj.exe" in LogEntry.objects.get().change_message
    _is_harmless(_main(after))
    for address in (url(hostile), url(hostile, "history")):
        # Django's log shows who it was, by a name that only a superuser can give.
        _is_harmless(_main(read(operator, address)).replace(escape(f"{SCRIPT}{REVERSED}"), ""))


def test_the_list_shows_it_as_text(operator, hostile):
    """Rows, filters and what was searched for."""
    ActorRow.objects.update(type=HOSTILE[:200])

    _is_harmless(read(operator, LIST))
    _is_harmless(read(operator, LIST, q=SCRIPT, type=HOSTILE[:200].replace(REVERSED, "")))


def test_what_an_operation_leaves_behind_is_text_too(operator, hostile):
    """The message after it, the log, and the recent actions on the front page."""
    response = operator.post(url(hostile, "cancel"), follow=True)

    _is_harmless(response.content.decode())
    for address in (url(hostile, "history"), "/admin/"):
        _is_harmless(read(operator, address))


def test_characters_that_turn_the_text_around_are_spelt_out(operator, hostile):
    """A key must not be able to look like another one."""
    assert "\\u202egpj.exe\\u2066\\u200f" in read(operator, url(hostile))


# Below: how it is done ---------------------------------------------------------------------------


def _main(html):
    return html.partition("<main")[2]


def _is_harmless(html):
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "=javascript:" not in html.replace('"', "")
    assert "INERT" not in html
    for character in REVERSED:
        assert character.isascii() or character not in html
