"""Who may see and do what."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.admin.pages import LIST, buttons, read, url

pytestmark = pytest.mark.django_db

OPERATIONS = ("recover", "cancel", "cancel_rollback")


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
    ("permission", "offered", "refused"),
    [
        ("recover_actor", ["Recover…"], ["cancel", "cancel_rollback"]),
        ("cancel_actor", ["Cancel…", "Cancel and roll back…"], ["recover"]),
    ],
)
def test_each_button_asks_for_its_own_permission(log_in, trip, rivet, permission, offered, refused):
    """One permission opens no other door."""
    handle = trip.create("one")
    rivet.drive(handle)
    client = log_in("view_actor", permission)

    assert buttons(read(client, url(handle))) == offered
    for operation in refused:
        assert client.post(url(handle, operation)).status_code == 403
    assert handle.status == "failed"


def test_an_operation_needs_the_permission_to_see_the_actor(log_in, trip, rivet):
    """Nobody acts on what they may not look at."""
    handle = trip.create("one")
    rivet.drive(handle)
    client = log_in("recover_actor")

    assert client.post(url(handle, "recover")).status_code == 403
    assert client.get(url(handle)).status_code == 403
    assert client.get(LIST).status_code == 403
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
