"""Every route, and what each sort of visitor may do there. A route without a row fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from django_rivet import urls
from tests.api.authorisation import VISITORS, club, everything, user_called

pytestmark = pytest.mark.django_db

Statuses = Mapping[str, int]
SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")


def looking(status: int = 200) -> Statuses:
    """For whom the type's classes let in; staff need ``view_actor`` besides."""
    return dict.fromkeys(VISITORS, 403) | {"guest": status, "operator": status, "superuser": status}


def using(status: int) -> Statuses:
    """For whom the type's classes let in; staff need nothing more."""
    return {**looking(status), "staff": status}


def only(visitor: str, status: int) -> Statuses:
    """The action or queue has classes of its own, which let in nobody else."""
    return dict.fromkeys(VISITORS, 403) | {visitor: status}


def operating(status: int) -> Statuses:
    """For staff with the model permission; ``status`` is what comes from behind the door."""
    return dict.fromkeys(VISITORS, 403) | {"operator": status, "superuser": status}


class Row(NamedTuple):
    route: str
    """Its name in the URLconf."""
    method: str
    statuses: Statuses
    body: Any = None
    names: Mapping[str, str] = {}
    """What stands in the address, beside the type and the key of an actor that is there."""


ROWS = [
    # Who is logged in learns that there is no type for him.
    Row("types", "get", dict.fromkeys(VISITORS, 200) | {"anonymous": 403}),
    Row("actors", "get", looking()),
    Row("actors", "post", using(201), {"key": "new"}),
    Row("actor", "get", looking()),
    Row("actor", "put", using(201), names={"key": "new"}),
    Row("action", "post", using(200), names={"action": "count"}),
    Row("action", "post", only("caller", 200), names={"action": "knock"}),
    Row("queues", "get", looking()),
    Row("queue", "post", using(202), {"body": 1}, {"queue": "orders"}),
    Row("queue", "post", only("ringer", 202), {"body": 1}, {"queue": "bell"}),
    Row("history", "get", looking()),
    Row("recover", "post", operating(409)),
    Row("cancel", "post", operating(200)),
    Row("actor", "delete", operating(204)),
    Row("pause", "post", operating(200)),
    Row("resume", "post", operating(409)),
    Row("retry-rollback", "post", operating(400)),
    Row("skip-rollback", "post", operating(400)),
    Row("confirm-rollback", "post", operating(400)),
    Row("replay", "post", operating(200)),
]


@pytest.fixture(autouse=True)
def main(db: None) -> Iterator[Any]:
    """The actor that all of it is about."""
    with club() as actor_class:
        yield actor_class.create("main")


@pytest.fixture
def client(request: pytest.FixtureRequest, db: None) -> APIClient:
    """``@pytest.mark.parametrize("client", VISITORS, indirect=True)``"""
    client = APIClient()
    client.force_authenticate(user_called(request.param))
    return client


def address(route: str, names: Mapping[str, str]) -> str:
    [pattern] = [each for each in urls.urlpatterns if each.name == route]
    known = {"type": "tests.Club", "key": "main", "action": "count", "queue": "orders", **names}
    needed = {name: known[name] for name in pattern.pattern.converters}
    return reverse(f"django_rivet:{route}", kwargs=needed)


def handled() -> set[tuple[str, str]]:
    """Every route with every method that its view has."""
    views: list[tuple[Any, Any]] = [(each.name, vars(each.callback)["cls"]) for each in urls.urlpatterns]
    methods = ("get", "post", "put", "patch", "delete")
    return {(name, method) for name, view in views for method in methods if hasattr(view, method)}


def test_every_route_has_a_row() -> None:
    """With each of its methods, and no row is about a route that is gone."""
    assert {(row.route, row.method) for row in ROWS} == handled()


@pytest.mark.parametrize(("client", "who"), [(who, who) for who in VISITORS], indirect=["client"], ids=VISITORS)
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.method}-{row.route}-{index}" for index, row in enumerate(ROWS)])
def test_each_may_do_what_the_table_says(client: APIClient, row: Row, who: str) -> None:
    """Who may not has changed nothing; neither has a GET."""
    before = everything()

    response = getattr(client, row.method)(address(row.route, row.names), row.body, format="json")

    assert response.status_code == row.statuses[who]
    if response.status_code >= 400 or row.method == "get":
        assert everything() == before
    else:
        assert everything() != before


@pytest.mark.parametrize("client", VISITORS, indirect=True)
def test_looking_changes_nothing(client: APIClient) -> None:
    """No GET, HEAD, OPTIONS or TRACE of any route does, whoever asks."""
    before = everything()

    for row in ROWS:
        for method in SAFE:
            response = client.generic(method, address(row.route, row.names))
            allowed = (row.route, "get") in handled() and method in ("GET", "HEAD")
            assert response.status_code in ((200, 403, 404) if allowed else (403, 405)), (method, row)

    assert everything() == before


@pytest.mark.parametrize("client", VISITORS, indirect=True)
def test_other_methods_do_nothing(client: APIClient) -> None:
    """What a route does not have is refused, with a body or without."""
    before = everything()

    for row in ROWS:
        for method in ("post", "put", "patch", "delete"):
            if (row.route, method) not in handled():
                response = getattr(client, method)(address(row.route, row.names), {"key": "x"}, format="json")
                assert response.status_code in (403, 405), (method, row)

    assert everything() == before


@pytest.mark.parametrize(("client", "who"), [(who, who) for who in VISITORS], indirect=["client"], ids=VISITORS)
def test_types_are_listed_for_who_may_look(client: APIClient, who: str) -> None:
    """To others there are none."""
    listed = [each["type"] for each in client.get(address("types", {})).json().get("results", [])]

    assert ("tests.Club" in listed) == (looking()[who] == 200)
    assert who not in ("anonymous", "stranger", "caller", "ringer", "staff") or listed == []
