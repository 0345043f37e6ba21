"""What a client may send: JSON, an object, the fields that are listed, and nothing that would fail later."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import RequestDataTooBig
from django.test import RequestFactory
from rest_framework.test import APIClient

from django_rivet.api.parsers import StrictJSONParser
from django_rivet.models import Actor as ActorRow
from django_rivet.models import Message
from django_rivet.testing import drive

pytestmark = pytest.mark.django_db

COUNTERS = "/api/actors/tests.CounterActor/"
CHECKOUT = "/api/actors/tests.CheckoutActor/main/"
ALL = [
    ("post", COUNTERS),
    ("put", f"{COUNTERS}new/"),
    ("post", f"{COUNTERS}main/actions/note/"),
    ("post", f"{CHECKOUT}queues/orders/"),
    ("post", f"{CHECKOUT}recover/"),
    ("post", f"{CHECKOUT}cancel/"),
]


@pytest.fixture(autouse=True)
def there(counter: Any, checkout: Any) -> None:
    counter.create("main")
    checkout.create("main")


def send(client: APIClient, method: str, url: str, raw: str | bytes, content_type: str = "application/json") -> Any:
    data: Any = raw
    return client.generic(method.upper(), url, data, content_type=content_type)


def nothing_happened() -> bool:
    return ActorRow.objects.count() == 2 and not Message.objects.exists()


@pytest.mark.parametrize("raw", ["null", "[]", '"x"', "1", "true", "[{}]"])
@pytest.mark.parametrize(("method", "url"), ALL)
def test_a_body_is_an_object(operator: APIClient, method: str, url: str, raw: str) -> None:
    """Anything else is refused with its reason."""
    response = send(operator, method, url, raw)

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == ["$"]
    assert nothing_happened()


@pytest.mark.parametrize(
    "raw",
    [
        "{",
        "{'key': 'x'}",
        '{"key": "x"} {}',
        '{"key": NaN}',
        '{"key": -Infinity}',
        '{"key": 1, "key": 2}',
        '{"key": {"a": 1, "b": {"c": 1, "c": 1}}}',
        '{"key": ' + "9" * 5000 + "}",
        b'\xff\xfe{\x00"\x00',
        b'{"key": "\xff"}',
        b'\xef\xbb\xbf{"key": "x"}',
        "[" * 20_000,
        '{"a":' * 20_000,
        "[" * 20_000 + "]" * 20_000,
    ],
    ids=range(14),
)
@pytest.mark.parametrize(("method", "url"), ALL)
def test_what_is_no_json_is_refused(operator: APIClient, method: str, url: str, raw: str | bytes) -> None:
    """Also what some readers take for JSON: NaN, a name twice, another encoding, a bomb of brackets."""
    response = send(operator, method, url, raw)

    assert (response.status_code, response.json()["code"]) == (400, "parse_error")
    assert nothing_happened()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ('"a\\u0000b"', ""),
        ('"\\ud800"', ""),
        ("1e999", ""),
        ('{"a\\u0000": 1}', ""),
        ('{"items": [1, {"price": -1e999}]}', ".items[1].price"),
    ],
)
def test_what_no_database_could_keep_is_refused_at_the_door(operator: APIClient, value: str, path: str) -> None:
    """On every database alike, with the place inside the body: never as a fault of the server later on."""
    queued = send(operator, "post", f"{CHECKOUT}queues/orders/", f'{{"body": {value}}}')
    called = send(operator, "post", f"{COUNTERS}main/actions/note/", f'{{"kwargs": {{"word": {value}}}}}')

    for response, start in ((queued, "body"), (called, "kwargs.word")):
        assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
        assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == [start + path]
    assert nothing_happened()


def test_a_body_has_a_depth(operator: APIClient) -> None:
    """What is nested deeper than a stored value may be is refused with that reason."""
    response = send(operator, "post", f"{CHECKOUT}queues/orders/", '{"body": ' + "[" * 120 + "]" * 120 + "}")

    assert response.status_code == 400
    assert "more than 100 containers inside each other" in response.json()["message"]
    assert nothing_happened()


@pytest.mark.parametrize(
    "field",
    ["id", "owner", "status", "state", "version", "actor", "created_at", "attempts", "result", "history", "type"],
)
@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("post", COUNTERS, {"key": "new"}),
        ("put", f"{COUNTERS}new/", {}),
        ("post", f"{COUNTERS}main/actions/note/", {"args": ["x"]}),
        ("post", f"{CHECKOUT}queues/orders/", {"body": {"id": "one"}}),
        ("post", f"{CHECKOUT}recover/", {}),
        ("post", f"{CHECKOUT}cancel/", {}),
    ],
)
def test_no_other_field_is_taken(operator: APIClient, method: str, url: str, body: dict[str, Any], field: str) -> None:
    """Nothing of an actor can be set from outside but by its own actions."""
    response = send(operator, method, url, json.dumps({**body, field: "mine"}))

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert response.json()["metadata"]["errors"] == [{"path": field, "message": "Unknown field."}]
    assert nothing_happened()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"args": "abc"}, "args"),
        ({"args": {"0": 1}}, "args"),
        ({"args": None}, "args"),
        ({"kwargs": []}, "kwargs"),
        ({"kwargs": "x"}, "kwargs"),
    ],
)
def test_a_field_has_its_shape(operator: APIClient, body: Any, path: str) -> None:
    """args is a list, kwargs an object."""
    response = send(operator, "post", f"{COUNTERS}main/actions/note/", json.dumps(body))

    assert response.status_code == 400
    assert [fault["path"] for fault in response.json()["metadata"]["errors"]] == [path]


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""])
def test_only_json_is_read(operator: APIClient, content_type: str) -> None:
    """A form of a foreign page cannot be mistaken for a call."""
    response = send(operator, "post", COUNTERS, '{"key": "new"}', content_type)

    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")
    assert nothing_happened()


def test_only_json_is_written(operator: APIClient) -> None:
    """Who wants HTML is told so, in JSON."""
    page = operator.get(COUNTERS, headers={"Accept": "text/html"})
    other = operator.get(f"{COUNTERS}?format=xml")

    assert (page.status_code, page.json()["code"]) == (406, "not_acceptable")
    assert (other.status_code, other.json()["code"]) == (404, "not_found")


def test_a_body_has_a_size(operator: APIClient, settings: Any) -> None:
    """That of Django's DATA_UPLOAD_MAX_MEMORY_SIZE, and the answer is 413."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100

    response = send(operator, "post", COUNTERS, json.dumps({"key": "x" * 101}))

    assert (response.status_code, response.json()["code"]) == (413, "request_too_large")
    assert nothing_happened()


def test_a_body_has_that_size_whatever_reads_it(settings: Any) -> None:
    """Older versions of REST framework hand the request itself to the parser, whose stream knows no limit."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    request = RequestFactory().post("/", "x" * 101, content_type="application/json")

    with pytest.raises(RequestDataTooBig):
        StrictJSONParser().parse(request)


def test_a_body_without_a_length_is_refused(operator: APIClient) -> None:
    """REST framework would take it for an empty one, and an action would run without its arguments."""
    response = operator.post(f"{COUNTERS}main/actions/total/", headers={"Transfer-Encoding": "chunked"})

    assert (response.status_code, response.json()["code"]) == (411, "length_required")


def test_values_arrive_as_they_were_sent(operator: APIClient, checkout: Any) -> None:
    """Unicode, escapes and empty texts included."""
    handle = checkout.get("main")
    order = {"id": 'Žofie \U0001f600 \u2028 \\ " </script>'}

    assert send(operator, "post", f"{CHECKOUT}queues/orders/", json.dumps({"body": order})).status_code == 202
    drive(handle)

    assert operator.get(CHECKOUT).json()["state"] == {"taken": [order["id"]]}
