"""Calling actions over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from threading import Event, Thread
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from pydantic import BaseModel, computed_field
from rest_framework.test import APIClient

from django_rivet import Actor, ActorBusyError, UserError, action
from django_rivet.models import Actor as ActorRow
from django_rivet.runtime.handles import Handle
from django_rivet.testing import isolated_actors

pytestmark = pytest.mark.django_db

COUNTER = "/api/actors/tests.CounterActor/main/actions/"
ODD = "/api/actors/tests.OddActor/main/actions/"


class Colour(Enum):
    RED = "red"


class Parcel(BaseModel):
    weight: Decimal
    sent: datetime

    @computed_field
    def heavy(self) -> bool:
        return self.weight > 10


@pytest.fixture
def odd() -> Iterator[type[Actor[Any]]]:
    """Actions that answer with odd things, or with none."""
    with isolated_actors():

        class OddActor(Actor):
            class State:
                calls: int = 0

            @action
            def parcel(self) -> Parcel:
                return Parcel(weight=Decimal("12.50"), sent=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

            @action
            def everything(self) -> dict[str, Any]:
                return {
                    "moment": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                    "day": date(2026, 1, 2),
                    "pause": timedelta(days=1, seconds=2),
                    "price": Decimal("1.10"),
                    "id": UUID(int=7),
                    "bytes": b"\xff\x00",
                    "colour": Colour.RED,
                    "pair": (1, 2.5),
                    "set": {"b", "a"},
                    "none": None,
                    "yes": True,
                    "text": "Žofie \u2028",
                }

            @action
            def number(self) -> float:
                self.state.calls += 1
                return float("nan")

            @action
            def thing(self) -> Any:
                self.state.calls += 1
                return object()

            @action
            def half(self) -> str:
                return "\ud800"

            @action
            def refuse(self, how: dict[str, Any]) -> None:
                self.state.calls += 1
                raise UserError("No.", **how)

            @action
            def fail(self) -> None:
                self.state.calls += 1
                raise ValueError("password=hunter2")

            @action
            def search(self) -> None:
                OddActor.get("secret-key")

            @action
            def unfit(self) -> None:
                self.state.calls = "secret-state"

        OddActor.create("main")
        yield OddActor


def test_an_action_is_called_with_arguments(operator: APIClient, counter: Any) -> None:
    """By place and by name, as in Python."""
    counter.create("main")

    response = operator.post(f"{COUNTER}add/", {"args": [2], "kwargs": {"times": 3}}, format="json")

    assert (response.status_code, response.json()) == (200, {"output": 6})
    assert counter.get("main").state.count == 6


def test_an_action_without_arguments_needs_no_body(operator: APIClient, counter: Any) -> None:
    """A read-only one as well."""
    counter.create("main", 4)

    assert operator.post(f"{COUNTER}total/").json() == {"output": 4}


def test_every_bad_argument_is_told(operator: APIClient, counter: Any) -> None:
    """All of them at once, and nothing has happened."""
    counter.create("main")

    response = operator.post(
        f"{COUNTER}add/", {"args": ["many"], "kwargs": {"times": [], "self": 1, "actor": 2}}, format="json"
    )

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert sorted(fault["path"] for fault in response.json()["metadata"]["errors"]) == [
        "actor",
        "amount",
        "self",
        "times",
    ]
    assert counter.get("main").state.count == 0


def test_a_missing_argument_is_told(operator: APIClient, counter: Any) -> None:
    """By its name."""
    counter.create("main")

    response = operator.post(f"{COUNTER}add/")

    assert response.status_code == 400
    assert response.json()["metadata"]["errors"] == [{"path": "amount", "message": "Missing argument"}]


@pytest.mark.parametrize("name", ["nothing", "state", "call", "create_state", "__init__", "_turn"])
def test_what_is_no_action_is_not_found(operator: APIClient, counter: Any, name: str) -> None:
    """No other method of an actor or a handle can be reached."""
    counter.create("main")

    response = operator.post(f"{COUNTER}{name}/")

    assert (response.status_code, response.json()["code"]) == (404, "unknown_action")


def test_an_action_of_no_actor_is_not_found(operator: APIClient, counter: Any) -> None:
    """Calling does not make one."""
    response = operator.post(f"{COUNTER}total/")

    assert (response.status_code, response.json()["code"]) == (404, "actor_not_found")


def test_values_beyond_json_have_one_form(operator: APIClient, odd: Any) -> None:
    """ISO 8601 for time, strings for exact numbers and ids, base64 for bytes, lists for sets."""
    response = operator.post(f"{ODD}everything/")

    assert response.json()["output"] == {
        "moment": "2026-01-02T03:04:05+00:00",
        "day": "2026-01-02",
        "pause": "P1DT00H00M02S",
        "price": "1.10",
        "id": "00000000-0000-0000-0000-000000000007",
        "bytes": "/wA=",
        "colour": "red",
        "pair": [1, 2.5],
        "set": ["a", "b"],
        "none": None,
        "yes": True,
        "text": "Žofie \u2028",
    }


def test_a_model_comes_out_as_its_schema_says(operator: APIClient, odd: Any) -> None:
    """Computed fields are part of it."""
    output = operator.post(f"{ODD}parcel/").json()["output"]

    schema = odd.definition.action("parcel").signature.result_schema()
    assert output == {"weight": "12.50", "sent": "2026-01-02T03:04:05+00:00", "heavy": True}
    assert sorted(output) == sorted(schema["required"])


@pytest.mark.parametrize("name", ["number", "thing", "half"])
def test_a_result_that_json_cannot_say_undoes_the_action(operator: APIClient, odd: Any, name: str) -> None:
    """The client is told of an error and may try again: then nothing may have happened."""
    response = operator.post(f"{ODD}{name}/")

    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert odd.get("main").state.calls == 0


def test_a_user_error_reaches_the_client(operator: APIClient, odd: Any) -> None:
    """With its code, its metadata and its status; and the action has left no trace."""
    response = operator.post(
        f"{ODD}refuse/",
        {"args": [{"code": "sold_out", "metadata": {"left": 0}, "status": 410}]},
        format="json",
    )

    assert response.status_code == 410
    assert response.json() == {"code": "sold_out", "message": "No.", "metadata": {"left": 0}}
    assert odd.get("main").state.calls == 0


@pytest.mark.parametrize("status", [200, 302, 99, 1000, "409", None, True])
def test_a_user_error_is_always_an_error(operator: APIClient, odd: Any, status: object) -> None:
    """Whatever status the author wrote: one that is none becomes 400."""
    response = operator.post(f"{ODD}refuse/", {"args": [{"status": status}]}, format="json")

    assert response.status_code == 400
    assert response.json() == {"code": "user_error", "message": "No.", "metadata": {}}


@pytest.mark.parametrize("name", ["fail", "search", "unfit"])
def test_any_other_error_stays_inside(
    operator: APIClient, odd: Any, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The client learns that something went wrong, the log learns what."""
    with caplog.at_level(logging.ERROR, logger="django_rivet.api.errors"):
        response = operator.post(f"{ODD}{name}/")

    assert response.status_code == 500
    assert response.json() == {
        "code": "internal_error",
        "message": "Something went wrong on the server.",
        "metadata": {},
    }
    [record] = [each for each in caplog.records if each.name == "django_rivet.api.errors"]
    assert record.getMessage() == f"POST {ODD}{name}/ failed"
    assert record.exc_info is not None
    assert record.exc_info[1].__class__.__name__ in ("ValueError", "ActorNotFoundError", "InvalidInputError")


def test_a_busy_actor_asks_to_come_back(operator: APIClient, counter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """409 and Retry-After: nothing happened."""
    counter.create("main")

    def busy(self: Handle, *args: Any, **kwargs: Any) -> None:
        raise ActorBusyError(f"actor {self.id} was busy for 5 s")

    monkeypatch.setattr(Handle, "call", busy)
    response = operator.post(f"{COUNTER}add/", {"args": [1]}, format="json")

    assert (response.status_code, response["Retry-After"]) == (409, "1")
    assert response.json() == {
        "code": "actor_busy",
        "message": "The actor was busy; nothing happened, try again.",
        "metadata": {},
    }


def test_only_post_calls_an_action(operator: APIClient, counter: Any) -> None:
    """A link or an image changes nothing."""
    counter.create("main")

    for response in (operator.get(f"{COUNTER}total/"), operator.options(f"{COUNTER}total/")):
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")


@pytest.mark.django_db(transaction=True)
def test_an_actor_whose_turn_is_taken_is_busy(operator: APIClient, counter: Any, settings: Any) -> None:
    """Somebody else holds it for longer than TURN_TIMEOUT (on SQLite: than the database waits for its lock)."""
    # given
    settings.RIVET = {"TURN_TIMEOUT": 0.1}
    handle = counter.create("main")
    if connection.vendor == "sqlite":
        connection.cursor().execute("PRAGMA busy_timeout = 100")
    held, answered = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            ActorRow.objects.select_for_update().get(pk=handle.id)
            held.set()
            answered.wait(30)
        connection.close()

    # when
    holder = Thread(target=hold)
    holder.start()
    held.wait(30)
    try:
        busy = operator.post(f"{COUNTER}add/", {"args": [1]}, format="json")
        readonly = operator.post(f"{COUNTER}total/")
    finally:
        answered.set()
        holder.join()
        connection.close()  # and with it that timeout

    # then
    assert (busy.status_code, busy["Retry-After"], busy.json()["code"]) == (409, "1", "actor_busy")
    assert readonly.json() == {"output": 0}
