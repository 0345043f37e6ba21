"""ACTOR-11 over HTTP: send a message and wait for its answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import drive, isolated_actors, serving

pytestmark = pytest.mark.django_db

QUESTIONS = "/api/actors/tests.Clerk/main/queues/questions/"


@pytest.fixture
def clerk() -> Iterator[Any]:
    """Tells dates; some questions are never answered."""
    with isolated_actors():

        class Clerk(Actor):
            questions = Queue(str, dict[str, date])

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("questions"):
                    question = turn.queue.next("question", completable=True)
                    if question.body == "give up":
                        return
                    if question.body == "think":
                        turn.sleep("think", 3600)
                    question.complete({question.body: date(2026, 1, 2)})

        yield Clerk.create("main")


def ask(client: APIClient, body: Any, **options: Any) -> Any:
    headers = options.pop("headers", {})
    return client.post(QUESTIONS, {"body": body, "wait": True, **options}, format="json", headers=headers)


def test_actor_11_a_request_that_waits_gets_the_response(operator: APIClient, clerk: Any) -> None:
    """200, with the response as JSON."""
    with serving():
        response = ask(operator, "today", timeout=30)

    assert (response.status_code, response.json()) == (
        200,
        {"status": "completed", "response": {"today": "2026-01-02"}},
    )


def test_actor_11_after_the_timeout_the_request_ends(operator: APIClient, clerk: Any) -> None:
    """The message is stored all the same, and the workflow comes to it."""
    response = ask(operator, "today", timeout=0.01)

    assert (response.status_code, response.json()) == (200, {"status": "timed_out"})
    drive(clerk)
    assert Message.objects.get().status == "completed"


def test_actor_11_a_workflow_that_ends_first_is_told_at_once(operator: APIClient, clerk: Any) -> None:
    """There will be no answer, so the time-out is not waited for."""
    with serving():
        response = ask(operator, "give up", timeout=60)

    assert (response.status_code, response.json()) == (200, {"status": "failed"})


def test_a_request_may_be_repeated_until_there_is_an_answer(operator: APIClient, clerk: Any) -> None:
    """With the same Idempotency-Key it waits for the same message; who has the answer may have it again."""
    key = {"Idempotency-Key": "k1"}
    first = ask(operator, "today", timeout=0, headers=key)
    with serving():
        again = ask(operator, "today", timeout=30, headers=key)
    late = ask(operator, "today", timeout=0, headers=key)

    assert first.json() == {"status": "timed_out"}
    assert again.json() == late.json() == {"status": "completed", "response": {"today": "2026-01-02"}}
    assert Message.objects.count() == 1


@pytest.mark.parametrize("timeout", [-1, 61, "soon", None])
def test_a_wait_has_a_bound(operator: APIClient, clerk: Any, timeout: Any) -> None:
    """60 seconds at most: each waiting request holds one of the server's threads."""
    response = ask(operator, "today", timeout=timeout)

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == ["timeout"]
    assert not Message.objects.exists()


def test_who_may_not_send_may_not_wait(anonymous: APIClient, clerk: Any) -> None:
    """The permission is that of sending."""
    response = ask(anonymous, "today")

    assert response.status_code == 403
    assert not Message.objects.exists()


def test_a_response_that_does_not_fit_any_more_is_nobodys_fault_outside(operator: APIClient, clerk: Any) -> None:
    """A deploy has changed the declaration: the client is told of an error, and not that its request was wrong."""
    ask(operator, "today", timeout=0)
    drive(clerk)
    Message.objects.update(response='{"today": "no date"}', idempotency_key="k1")

    response = ask(operator, "today", timeout=0, headers={"Idempotency-Key": "k1"})

    assert (response.status_code, response.json()["code"]) == (500, "internal_error")


@pytest.mark.django_db(transaction=True)
def test_it_waits_under_atomic_requests_too(operator: APIClient, clerk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is committed before the wait begins, or no worker would ever see it."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)

    with serving():
        response = ask(operator, "today", timeout=30)

    assert response.json()["status"] == "completed"
