"""Histories over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.permissions import IsAuthenticated
from rest_framework.test import APIClient

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.testing import advance, drive, isolated_actors

pytestmark = pytest.mark.django_db

HISTORY = "/api/actors/tests.CheckoutActor/main/history/"


@pytest.fixture
def failed(checkout: Any) -> Any:
    """One order went well, the second one was declined after it had been charged."""
    handle = checkout.create("main")
    handle.send("orders", {"id": "one"})
    handle.send("orders", {"id": "bad"})
    drive(handle)
    return handle


def lines(nodes: list[dict[str, Any]], indent: str = "") -> list[str]:
    """A tree as it can be read in a failing test."""
    found = []
    for node in nodes:
        rollback = f" rollback {node['rollback']['status']}" if node["rollback"] else ""
        found.append(f"{indent}{node['path'].rpartition('/')[2]} {node['kind']} {node['status']}{rollback}")
        found += lines(node["children"], indent + "  ")
    return found


def test_a_history_is_read_page_by_page_in_the_order_things_happened(operator: APIClient, failed: Any) -> None:
    """Every entry comes once, as the handle tells it."""
    # when
    pages = [operator.get(f"{HISTORY}?page_size=3").json()]
    while pages[-1]["next"]:
        pages.append(operator.get(pages[-1]["next"]).json())

    # then
    entries = [entry for page in pages for entry in page["results"]]
    assert [len(page["results"]) for page in pages[:-1]] == [3] * (len(pages) - 1)
    assert [entry["path"] for entry in entries] == [entry.path for entry in failed.history()]
    assert [entry["status"] for entry in entries] == [entry.status for entry in failed.history()]


def test_an_entry_tells_what_happened(operator: APIClient, failed: Any) -> None:
    """What came out, how often it was tried, what went wrong, and how far its rollback is."""
    # when
    entries = {entry["path"]: entry for entry in operator.get(HISTORY).json()["results"]}

    # then
    charge, confirm = entries["orders/1/charge"], entries["orders/1/confirm"]
    assert (charge.pop("started_at"), charge.pop("ended_at")) != (None, None)
    assert charge == {
        "path": "orders/1/charge",
        "kind": "step",
        "status": "completed",
        "attempts": 1,
        "output": "charge-bad",
        "error": None,
        "rollback": {"status": "completed", "attempts": 1, "error": None, "note": None, "decided_by": None},
    }
    assert (confirm["status"], confirm["rollback"]) == ("failed", None)
    assert confirm["error"] == {"name": "CriticalError", "message": "the card 4711 was declined"}


def test_a_page_costs_the_same_whatever_it_holds(
    operator: APIClient, failed: Any, django_assert_num_queries: Any
) -> None:
    """The actor, the entries, their rollbacks: three statements."""
    operator.get(HISTORY)

    with django_assert_num_queries(3):
        operator.get(HISTORY)


def test_a_history_is_read_as_a_tree(operator: APIClient, failed: Any) -> None:
    """Each entry with what happened inside it."""
    answer = operator.get(f"{HISTORY}?tree=true").json()

    assert (answer["next"], answer["previous"]) == (None, None)
    assert lines(answer["results"]) == [
        "start checkpoint completed",
        "orders loop failed",
        "  0 iteration completed",
        "    wait message completed",
        "    charge step completed rollback completed",
        "    confirm step completed",
        "  1 iteration running",
        "    wait message completed",
        "    charge step completed rollback completed",
        "    confirm step failed",
    ]


@pytest.fixture
def trip() -> Iterator[Any]:
    """Books a flight; its hotel, in another branch, comes an hour later and fails; nobody chooses a car."""
    with isolated_actors():

        class TripActor(Actor):
            class Meta:
                permission_classes = [IsAuthenticated]

            cars = Queue(str)

            @workflow
            def run(self, ctx):
                ctx.join("bookings", {"flight": self.flight, "hotel": self.hotel, "car": self.car})

            def flight(self, branch):
                return branch.step("book", str, "flight-1")

            def hotel(self, branch):
                branch.sleep("an hour", 3600)
                branch.step("book", self.book)

            def car(self, branch):
                return branch.queue.next("choice").body

            def book(self):
                raise CriticalError("password=hunter2")

        handle = TripActor.create("main")
        drive(handle)
        yield handle


def test_branches_are_nodes_of_the_tree_before_they_have_a_record(operator: APIClient, trip: Any) -> None:
    """Page by page there is what is on record; what a branch returned stands in its entry."""
    address = "/api/actors/tests.TripActor/main/history/"
    assert lines(operator.get(f"{address}?tree=true").json()["results"]) == [
        "bookings join running",
        "  flight branch completed",
        "    book step completed",
        "  hotel branch running",
        "    an hour sleep pending",
        "  car branch running",
    ]
    flat = {entry["path"]: entry["output"] for entry in operator.get(address).json()["results"]}
    assert flat == {
        "bookings": None,
        "bookings/flight": "flight-1",
        "bookings/flight/book": "flight-1",
        "bookings/hotel/an hour": None,
    }


def test_what_failed_a_branch_is_for_staff(
    operator: APIClient, member: User, client_of: Callable[[Any], APIClient], trip: Any
) -> None:
    """Neither the error of a branch nor what is stored beside it reaches others."""
    address = "/api/actors/tests.TripActor/main/history/"
    trip.send("cars", "van")
    advance(3600)
    assert drive(trip) == "failed"

    flat, tree = client_of(member).get(address), client_of(member).get(f"{address}?tree=true")
    assert b"hunter2" not in flat.content + tree.content
    assert [node["status"] for node in tree.json()["results"][0]["children"]] == ["completed", "failed", "completed"]
    [hotel] = [each for each in operator.get(address).json()["results"] if each["path"] == "bookings/hotel"]
    assert (hotel["error"]["name"], hotel["error"]["message"]) == ("CriticalError", "password=hunter2")
    assert hotel["output"] is None


def test_a_tree_that_is_too_large_is_refused(operator: APIClient, failed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page it can be read however long it is."""
    monkeypatch.setattr("django_rivet.api.views.MAX_TREE_ENTRIES", 5)

    response = operator.get(f"{HISTORY}?tree=true")

    assert response.status_code == 400
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == ["tree"]


def test_errors_are_for_staff(member: User, client_of: Callable[[Any], APIClient]) -> None:
    """Somebody whom an actor lets in sees that a step and its rollback failed, and not the words of it, nor
    those of who decided about it."""
    # given
    with isolated_actors():

        class LeakyActor(Actor):
            class Meta:
                permission_classes = [IsAuthenticated]

            @workflow
            def run(self, ctx):
                ctx.rollback_checkpoint("start")
                ctx.step("take", self.take, rollback=self.untake, rollback_max_retries=0)
                ctx.step("pay", self.pay, max_retries=0)

            def take(self):
                return 1

            def untake(self, rollback, output):
                raise CriticalError("password=hunter2")

            def pay(self):
                raise CriticalError("password=hunter2")

        handle = LeakyActor.create("main")
        assert drive(handle) == "rollback_failed"

        # when
        client = client_of(member)
        flat = client.get("/api/actors/tests.LeakyActor/main/history/")
        tree = client.get("/api/actors/tests.LeakyActor/main/history/?tree=1")
        handle.skip_rollback("take", "password=hunter2", by="anna")
        decided = client.get("/api/actors/tests.LeakyActor/main/history/")

    # then
    assert [entry["status"] for entry in flat.json()["results"]] == ["completed", "completed", "failed"]
    assert [entry["error"] for entry in flat.json()["results"]] == [None, None, None]
    assert flat.json()["results"][1]["rollback"] == {
        "status": "failed",
        "attempts": 1,
        "error": None,
        "note": None,
        "decided_by": None,
    }
    assert b"hunter2" not in flat.content + tree.content + decided.content
    assert b"anna" not in decided.content


@pytest.mark.parametrize(
    "query", ["cursor=cD1hYmM=", "cursor=cD0tMQ==", "cursor=cD05OTk5OTk5OTk5OTk5OTk5OTk5OTk=", "tree=x"]
)
def test_a_query_that_makes_no_sense_is_refused(operator: APIClient, failed: Any, query: str) -> None:
    """A cursor that was never handed out is the client's fault."""
    response = operator.get(f"{HISTORY}?{query}")

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
