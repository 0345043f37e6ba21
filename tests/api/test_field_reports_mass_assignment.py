"""B53, mass assignment: nothing of an actor can be set from outside but what it declares for that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from rest_framework.test import APIClient

from django_rivet import Actor, Queue, action, workflow
from django_rivet.models import Actor as ActorRow
from django_rivet.models import Message
from django_rivet.testing import drive, isolated_actors
from tests.api.authorisation import everything

pytestmark = pytest.mark.django_db

PROTECTED = {
    "id": "00000000-0000-0000-0000-000000000001",
    "pk": 1,
    "owner": "eve",
    "tenant": "eve",
    "type": "tests.Other",
    "status": "completed",
    "state": {"done": ["everything"]},
    "version": 99,
    "actor": "eve",
    "actor_id": 7,
    "created_at": "1970-01-01T00:00:00Z",
    "attempts": 99,
    "result": "mine",
    "output": "mine",
    "history": [],
    "epoch": 99,
    "__class__": "Eve",
    "definition": {},
}
LEDGER = "/api/actors/tests.Ledger/"
WRONG_SHAPES = ["null", "[]", '"x"', "1", "[{}]", '{"key": "a", "key": "b"}', ""]


class Order(BaseModel):
    id: str
    amount: int = 1


@pytest.fixture(autouse=True)
def ledger() -> Iterator[Any]:
    with isolated_actors():

        class Ledger(Actor):
            class State:
                owner: str = "anna"
                done: list[str] = []

            orders = Queue(Order)

            def create_state(self, input: Order | None) -> dict[str, Any]:
                return {"done": [] if input is None else [input.id]}

            @workflow
            def run(self, ctx: Any) -> None:
                for turn in ctx.loop("orders"):
                    order = turn.queue.next("wait", names=["orders"]).body
                    assert type(order) is Order
                    turn.step("note", self.note, order.id)

            @action
            def take(self, order: Order) -> dict[str, Any]:
                self.state.done.append(order.id)
                return vars(order)

            @action
            def tag(self, **tags: Any) -> list[str]:
                assert isinstance(self, Ledger)
                return sorted(tags)

            def note(self, order_id: str) -> None:
                self.state.done.append(order_id)

        yield Ledger


@pytest.mark.parametrize("field", PROTECTED)
def test_b53_protected_names_beside_a_body_are_refused(operator: APIClient, ledger: Any, field: str) -> None:
    """Of every body, with the field that is wrong; nothing is written."""
    ledger.create("main")
    before = everything()
    order = {"id": "one"}
    requests = [
        operator.post(LEDGER, {"key": "new", field: PROTECTED[field]}, format="json"),
        operator.put(f"{LEDGER}new/", {field: PROTECTED[field]}, format="json"),
        operator.post(f"{LEDGER}main/actions/take/", {"args": [order], field: PROTECTED[field]}, format="json"),
        operator.post(f"{LEDGER}main/queues/orders/", {"body": order, field: PROTECTED[field]}, format="json"),
        operator.post(f"{LEDGER}main/cancel/", {field: PROTECTED[field]}, format="json"),
    ]

    for response in requests:
        assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
        assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == [field]
    assert everything() == before


def test_b53_protected_names_inside_a_declared_value_are_left_out(operator: APIClient, ledger: Any) -> None:
    """A model takes its own fields; whatever else came along has no effect on the actor, its run or the message."""
    more = {**PROTECTED, "id": "one"}

    made = operator.post(LEDGER, {"key": "main", "input": more}, format="json")
    taken = operator.post(f"{LEDGER}main/actions/take/", {"kwargs": {"order": more}}, format="json")
    sent = operator.post(f"{LEDGER}main/queues/orders/", {"body": more}, format="json")

    assert [each.status_code for each in (made, taken, sent)] == [201, 200, 202]
    assert taken.json() == {"output": {"id": "one", "amount": 1}}
    handle, row, message = ledger.get("main"), ActorRow.objects.select_related("run").get(), Message.objects.get()
    assert json.loads(message.body) == {"id": "one", "amount": 1}
    assert str(row.pk) == made.json()["id"] != PROTECTED["id"]
    assert (row.type, row.key, row.run.status, row.created_at.year > 1970) == ("tests.Ledger", "main", "pending", True)
    drive(handle)
    assert (handle.state.owner, handle.state.done) == ("anna", ["one", "one", "one"])


def test_b53_arguments_override_nothing_inside(operator: APIClient, ledger: Any) -> None:
    """An action that takes any name gets them as names; the one for the actor itself is refused."""
    ledger.create("main")
    names = ["actor", "ctx", "args", "kwargs", "state", "request", "handle", "__class__"]

    tagged = operator.post(f"{LEDGER}main/actions/tag/", {"kwargs": dict.fromkeys(names, 1)}, format="json")
    refused = operator.post(f"{LEDGER}main/actions/tag/", {"kwargs": {"self": 1}}, format="json")
    unknown = operator.post(
        f"{LEDGER}main/actions/take/",
        {"args": [{"id": "x"}], "kwargs": {"self": 1, "ctx": 2, "actor": 3}},
        format="json",
    )

    assert tagged.json() == {"output": sorted(names)}
    assert (refused.status_code, refused.json()["metadata"]["errors"][0]["path"]) == (400, "self")
    assert [fault["path"] for fault in unknown.json()["metadata"]["errors"]] == ["self", "ctx", "actor"]
    assert ledger.get("main").state.done == []


@pytest.mark.parametrize("raw", WRONG_SHAPES)
def test_b53_wrong_shapes_are_told(operator: APIClient, ledger: Any, raw: str) -> None:
    """Never a 500, and nothing is written; no body at all is one that lacks its fields."""
    ledger.create("main")
    before = everything()

    for path in ("", "main/actions/take/", "main/queues/orders/"):
        response = operator.generic("POST", LEDGER + path, raw, content_type="application/json")
        assert response.status_code == 400, path
        assert response.json()["code"] in ("invalid_input", "parse_error")
        assert response.json()["message"]
    for body in (raw, '{"body": [1]}', '{"body": null}', '{"body": "x"}', '{"body": {"amount": "many"}}'):
        response = operator.generic("POST", f"{LEDGER}main/queues/orders/", body, content_type="application/json")
        assert response.status_code == 400, body

    assert everything() == before


def test_b53_forms_formats_and_other_methods_write_nothing(operator: APIClient, ledger: Any) -> None:
    """A form is no JSON, a format that is not offered is not found, and what is read-only has no PUT or PATCH."""
    ledger.create("main")
    before = everything()

    assert operator.post(LEDGER, {"key": "new"}, format="multipart").status_code == 415
    form = operator.generic("POST", LEDGER, "key=new", content_type="application/x-www-form-urlencoded")
    assert form.status_code == 415
    assert operator.post(f"{LEDGER}?format=xml", {"key": "new"}, format="json").status_code == 404
    for path in ("", "main/history/", "main/queues/", "main/actions/take/"):
        for method in ("put", "patch"):
            assert getattr(operator, method)(LEDGER + path, PROTECTED, format="json").status_code == 405, path
    assert operator.patch(f"{LEDGER}main/", PROTECTED, format="json").status_code == 405

    assert everything() == before
