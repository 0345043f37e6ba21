"""The part of a page that is fetched again and again while somebody looks."""

import pytest

from tests.admin.pages import OVERVIEW, text, url

pytestmark = pytest.mark.django_db

LIVE = {"X-Rivet-Live": "1"}


def test_what_moves_comes_without_the_page_around_it(operator, trip, rivet):
    """Small, never cached, and not to be taken for the page by a cache that does not know better."""
    handle = trip.create("one")
    rivet.drive(handle)

    for address in (url(handle), OVERVIEW):
        response = operator.get(address, headers=LIVE)
        html = response.content.decode()
        assert html.strip().startswith('<div id="rivet-now"')
        assert "<html" not in html
        assert "X-Rivet-Live" in response["Vary"]
        assert "no-store" in response["Cache-Control"]
        assert 'id="rivet-now"' in operator.get(address).content.decode()


def test_it_does_not_swallow_a_message_that_is_meant_for_the_next_page(operator, sleeper):
    """A tab that only looks on must not hide from the operator what a button has done."""
    handle = sleeper.create("one")
    operator.post(url(handle, "pause"))

    operator.get(url(handle), headers=LIVE)

    assert "The workflow is paused" in text(operator.get(url(handle)).content.decode())


def test_it_says_how_soon_to_look_again(operator, trip, sleeper, rivet):
    """Each second while it moves, seldom where only an operator can move it, not at all when it is over."""
    moving, failed, over = sleeper.create("one"), trip.create("two"), sleeper.create("three")
    rivet.drive(failed)
    over.cancel()

    assert [_seconds(operator, each) for each in (moving, failed, over)] == ["1", "5", ""]


def test_an_actor_that_is_gone_is_not_found(operator, sleeper):
    """And leaves no message behind for a page that is about something else."""
    handle = sleeper.create("one")
    address = url(handle)
    handle.destroy()

    assert operator.get(address, headers=LIVE).status_code == 404
    assert "perhaps it was destroyed" not in operator.get(OVERVIEW).content.decode()


# Below: how it is done ---------------------------------------------------------------------------


def _seconds(client, handle):
    html = client.get(url(handle), headers=LIVE).content.decode()
    return html.partition('data-seconds="')[2].partition('"')[0]
