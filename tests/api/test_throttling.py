"""Throttling is the project's own; each kind of request has a scope that it may set a rate for."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient
from rest_framework.throttling import ScopedRateThrottle

from django_rivet.api.base import RivetView

pytestmark = pytest.mark.django_db

CHECKOUT = "/api/actors/tests.CheckoutActor/main/"


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Any:
    """``rates(rivet_send="1/day")``: a project that limits by scope."""

    def limit(**rates: str) -> None:
        settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": rates}
        # REST framework reads both when its modules are imported.
        monkeypatch.setattr(ScopedRateThrottle, "THROTTLE_RATES", rates)
        monkeypatch.setattr(RivetView, "throttle_classes", [ScopedRateThrottle])

    cache.clear()
    yield limit
    cache.clear()


def test_a_project_that_limits_its_own_views_by_scope_need_not_know_ours(
    rates: Any, operator: APIClient, checkout: Any
) -> None:
    """A scope without a rate limits nothing; REST framework alone would refuse to serve it."""
    rates(uploads="1/day")
    checkout.create("main")

    assert [operator.get(CHECKOUT).status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("scope", ["rivet_send", "rivet_write"])
def test_sending_can_be_limited(rates: Any, operator: APIClient, checkout: Any, scope: str) -> None:
    """By a rate of its own, or that of everything that changes something; reading goes on."""
    rates(**{scope: "2/day"})
    checkout.create("main")

    sent = [operator.post(f"{CHECKOUT}queues/notes/", {"body": "a"}, format="json") for _ in range(3)]

    assert [each.status_code for each in sent] == [202, 202, 429]
    assert sent[2].json()["code"] == "throttled"
    assert int(sent[2]["Retry-After"]) > 0
    assert operator.get(CHECKOUT).status_code == 200


def test_reading_and_calling_have_scopes_too(rates: Any, operator: APIClient, counter: Any) -> None:
    """Each kind of request is counted for itself."""
    rates(rivet_read="1/day", rivet_call="1/day")
    counter.create("main")
    url = "/api/actors/tests.CounterActor/main/"

    read = [operator.get(url).status_code for _ in range(2)]
    called = [operator.post(f"{url}actions/total/", {}, format="json").status_code for _ in range(2)]

    assert (read, called) == ([200, 429], [200, 429])
