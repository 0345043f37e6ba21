"""Text from outside stays text, on every page."""

import pytest

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.models import Actor as ActorRow
from tests.admin.pages import LIST, read, url

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"
IMAGE = "</pre></code></textarea><img src=x onerror=alert(1)>"
LINK = "javascript:alert(1)"
TEMPLATE = "{{ 7*7 }}{% now 'Y' %}"
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
            ctx.step(f"fail {NAME}", self.fail)

        def echo(self):
            return {HOSTILE: HOSTILE}

        def undo(self, rollback, output):
            raise CriticalError(HOSTILE)

        def fail(self):
            raise CriticalError(HOSTILE)

    handle = Victim.create(tuple(HOSTILE.split("/")), {"input": HOSTILE})
    handle.send("orders", {"note": HOSTILE})
    handle.send("orders", {"note": HOSTILE}, idempotency_key=SCRIPT + IMAGE)
    assert rivet.drive(handle) == "rollback_failed"
    return handle


@pytest.mark.parametrize("page", ["change", "history", "recover", "cancel", "cancel_rollback"])
def test_the_pages_of_an_actor_show_it_as_text(operator, hostile, page):
    """Page, log and questions."""
    html = read(operator, url(hostile, page))

    _is_harmless(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


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


def _is_harmless(html):
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "=javascript:" not in html.replace('"', "")
    assert ">49" not in html
    for character in REVERSED:
        assert character.isascii() or character not in html
