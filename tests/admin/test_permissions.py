"""Who may see and do what."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_rivet.models import Compensation
from tests.admin.pages import LIST, OVERVIEW, buttons, read, url

pytestmark = pytest.mark.django_db

HANDLER_OPERATIONS = ("retry_handler", "skip_handler", "confirm_handler")
OPERATIONS = ("recover", "pause", "resume", "cancel", "cancel_rollback", *HANDLER_OPERATIONS)


def test_staff_who_may_only_look_see_no_button(log_in, trip, rivet):
    """The page is there, without what they may not do."""
    handle = trip.create("one")
    rivet.drive(handle)

    assert buttons(read(log_in("view_actor"), url(handle))) == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("method", ["get", "post"])
def test_staff_who_may_only_look_cannot_act(log_in, trip, rivet, operation, method):
    """Neither by the form nor by the address behind it."""
    handle = trip.create("one")
    rivet.drive(handle)

    response = getattr(log_in("view_actor"), method)(url(handle, operation))

    assert response.status_code == 403
    assert handle.status == "failed"


@pytest.mark.parametrize(
    ("permission", "offered", "allowed"),
    [
        ("recover_actor", ["Recover…"], {"recover"}),
        ("cancel_actor", ["Cancel…", "Cancel and roll back…"], {"cancel", "cancel_rollback"}),
        ("pause_actor", [], {"pause", "resume"}),
        ("compensate_actor", ["Retry handler…", "Skip handler…", "Mark done…"], {*HANDLER_OPERATIONS}),
        ("replay_actor", [], set()),
        ("destroy_actor", [], set()),
    ],
)
def test_each_button_asks_for_its_own_permission(log_in, trip, rivet, permission, offered, allowed):
    """One permission opens no other door."""
    trip.rollback_works = False
    handle = trip.create("one")
    assert rivet.drive(handle) == "rollback_failed"
    failed = {"handler": Compensation.objects.get().pk}
    client = log_in("view_actor", permission)

    assert buttons(read(client, url(handle))) == offered
    for operation in sorted({*OPERATIONS} - allowed):
        assert client.post(url(handle, operation), {**failed, "text": "no"}).status_code == 403, operation
        assert client.get(url(handle, operation), failed).status_code == 403, operation
    assert handle.status == "rollback_failed"
    for operation in sorted(allowed):
        assert client.get(url(handle, operation), failed).status_code == 200, operation


@pytest.mark.parametrize("is_known", [False, True])
def test_who_is_no_staff_is_sent_to_the_login(trip, rivet, is_known):
    """Anonymous or a customer: every page and every form, and the part of a page that is fetched alone."""
    trip.rollback_works = False
    handle = trip.create("one")
    rivet.drive(handle)
    form = {"handler": str(Compensation.objects.get().pk), "text": "no"}
    client = Client()
    if is_known:
        client.force_login(User.objects.create_user("customer"))

    pages = [LIST, OVERVIEW, url(handle), url(handle, "history")]
    for address in [*pages, *(url(handle, operation) for operation in OPERATIONS)]:
        for answer in (
            client.get(address, form),
            client.get(address, headers={"X-Rivet-Live": "1"}),
            client.post(address, form),
        ):
            assert answer.status_code == 302, address
            assert answer["Location"].startswith("/admin/login/"), address
    assert handle.status == "rollback_failed"
    assert Compensation.objects.get().status == "failed"


def test_an_operation_needs_the_permission_to_see_the_actor(log_in, trip, rivet):
    """Nobody acts on what they may not look at."""
    handle = trip.create("one")
    rivet.drive(handle)
    client = log_in("recover_actor")

    assert client.post(url(handle, "recover")).status_code == 403
    for address in (url(handle), LIST, OVERVIEW):
        assert client.get(address).status_code == 403
        assert client.get(address, headers={"X-Rivet-Live": "1"}).status_code == 403
    assert handle.status == "failed"


@pytest.mark.parametrize("method", ["get", "post"])
def test_nobody_adds_edits_or_deletes_an_actor(trip, method):
    """Not even a superuser: workflows change actors, and operators ask workflows to."""
    handle = trip.create("one")
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    ask = getattr(client, method)

    assert ask(reverse("admin:django_rivet_actor_add")).status_code == 403
    assert ask(url(handle, "delete")).status_code == 403
    if method == "post":
        assert ask(url(handle), {"key": "other"}).status_code == 403
        ask(LIST, {"action": "delete_selected", "_selected_action": [handle.id], "post": "yes"})
    assert trip.get("one").id == handle.id
