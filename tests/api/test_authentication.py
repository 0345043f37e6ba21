"""Logging in is the project's business; what the API makes of it is tested here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.authentication import BasicAuthentication
from rest_framework.test import APIClient

from django_rivet.api.views import ActorView

pytestmark = pytest.mark.django_db

COUNTER = "/api/actors/tests.CounterActor/main/"


def test_a_session_needs_its_csrf_token(staff: Callable[..., User], counter: Any) -> None:
    """A foreign page cannot make a logged-in browser call an action."""
    counter.create("main")
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(staff())

    response = client.post(f"{COUNTER}actions/add/", {"args": [1]}, format="json")

    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    assert counter.get("main").state.count == 0


@pytest.mark.usefixtures("counter")
def test_a_client_is_told_how_to_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """401 and WWW-Authenticate, where the project's first authentication class has a challenge."""
    monkeypatch.setattr(ActorView, "authentication_classes", [BasicAuthentication])

    response = APIClient().get(COUNTER)

    assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")
    assert response["WWW-Authenticate"].startswith("Basic")
