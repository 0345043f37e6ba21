"""The OpenAPI schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from django.contrib.auth.models import User
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import spectacular_settings
from drf_spectacular.validation import validate_schema
from pydantic import BaseModel, Field
from rest_framework.permissions import AllowAny
from rest_framework.test import APIClient

from django_rivet import Actor, Event, Queue, action
from django_rivet.api.openapi_dialect import as_openapi_30
from django_rivet.testing import isolated_actors

HOOKS = ["drf_spectacular.hooks.postprocess_schema_enums", "django_rivet.api.openapi_types.add_actor_types"]


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Box(BaseModel):
    size: Size
    kind: Literal["box"] = "box"
    inside: list[Box] = []
    weight: Annotated[Decimal | None, Field(gt=0, lt=100)] = None
    corners: tuple[int, str] = (1, "a")
    labels: dict[str, date] = {}


class Bag(BaseModel):
    kind: Literal["bag"]
    anything: Any = None


@pytest.fixture
def storage() -> Iterator[type[Actor[Any]]]:
    """Types of every sort."""
    with isolated_actors():

        class StorageActor(Actor):
            class State:
                boxes: list[Box] = []

            class Meta:
                permission_classes = [AllowAny]

            arrivals = Queue(Annotated[Box | Bag, Field(discriminator="kind")], response_type=Bag)
            left = Event(Box | None)

            def create_state(self, input: Box | None) -> dict[str, Any]:
                return {}

            @action
            def store(self, box: Box, *, fragile: bool = False) -> Box | None:
                return None

            @action
            def count(self, *numbers: int) -> int:
                return sum(numbers)

        yield StorageActor


@pytest.fixture(params=["3.0.3", "3.1.0"])
def with_types(request: Any) -> Iterator[None]:
    """The project names the hook, in either dialect of OpenAPI."""
    spectacular_settings.apply_patches({"POSTPROCESSING_HOOKS": HOOKS, "OAS_VERSION": request.param})
    yield
    spectacular_settings.clear_patches()


@pytest.fixture
def without_types() -> Iterator[None]:
    """The project does not name the hook."""
    spectacular_settings.apply_patches({"POSTPROCESSING_HOOKS": HOOKS[:1]})
    yield
    spectacular_settings.clear_patches()


def generated(request: Any = None) -> dict[str, Any]:
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=request, public=True)
    return schema


def references(part: Any) -> Iterator[str]:
    """Every $ref in a schema."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inside in part.values():
            yield from references(inside)
    elif isinstance(part, list):
        for inside in part:
            yield from references(inside)


@pytest.mark.usefixtures("without_types")
def test_the_schema_is_valid_and_nothing_had_to_be_guessed() -> None:
    """drf-spectacular has neither errors nor warnings to tell: ``--validate --fail-on-warn`` passes."""
    schema = generated()

    validate_schema(schema)
    assert not GENERATOR_STATS
    rivets = [path for path in schema["paths"] if "/actors/" in path]
    assert len(rivets) == 15


@pytest.mark.usefixtures("without_types")
def test_components_do_not_meet_those_of_the_project() -> None:
    """Each begins with the name of the library."""
    names = generated()["components"]["schemas"]

    assert all(name.removeprefix("Paginated").startswith("Rivet") for name in names)


@pytest.mark.usefixtures("with_types")
def test_each_type_has_its_own_routes(storage: Any) -> None:
    """With the hook a generated client knows actions and queues by name, and the schema is valid still."""
    # when
    schema = generated()

    # then
    validate_schema(schema)
    assert not GENERATOR_STATS
    assert [path.removeprefix("/api/actors/tests.StorageActor/") for path in schema["paths"] if "tests." in path] == [
        "",
        "{key}/",
        "{key}/actions/store/",
        "{key}/actions/count/",
        "{key}/queues/arrivals/",
    ]
    for path in ("", "{key}/"):
        # An address that listed some of its methods only would deny the others.
        own = schema["paths"][f"/api/actors/tests.StorageActor/{path}"]
        assert set(own) == set(schema["paths"][f"/api/actors/{{type}}/{path}"])
    known = {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}
    assert set(references(schema)) <= known


@pytest.mark.usefixtures("with_types")
def test_a_route_of_a_type_says_what_it_takes(storage: Any) -> None:
    """Names that stand in the address are no parameters any more."""
    schema = generated()

    store = schema["paths"]["/api/actors/tests.StorageActor/{key}/actions/store/"]["post"]
    body = store["requestBody"]["content"]["application/json"]["schema"]
    answer = store["responses"]["200"]["content"]["application/json"]["schema"]
    arguments = schema["components"]["schemas"]["tests.StorageActor.actions.store.arguments"]
    assert store["operationId"] == "actors_call_action_tests.StorageActor_store"
    assert [parameter["name"] for parameter in store["parameters"]] == ["key"]
    assert body["properties"]["kwargs"]["$ref"].endswith("tests.StorageActor.actions.store.arguments")
    assert answer["properties"]["output"]["$ref"].endswith("tests.StorageActor.actions.store.output")
    assert (sorted(arguments["properties"]), arguments["required"]) == (["box", "fragile"], ["box"])


@pytest.mark.usefixtures("with_types")
def test_a_queue_of_a_type_says_what_it_answers(storage: Any) -> None:
    """To a request that waits, and that one can wait."""
    schema = generated()

    send = schema["paths"]["/api/actors/tests.StorageActor/{key}/queues/arrivals/"]["post"]
    body = send["requestBody"]["content"]["application/json"]["schema"]
    _, answer = send["responses"]["200"]["content"]["application/json"]["schema"]["allOf"]
    assert (sorted(body["properties"]), body["required"]) == (["body", "timeout", "wait"], ["body"])
    assert answer["properties"]["response"]["$ref"].endswith("tests.StorageActor.responses.arrivals")
    response = schema["components"]["schemas"]["tests.StorageActor.responses.arrivals"]
    assert sorted(response["properties"]) == ["anything", "kind"]
    assert "202" in send["responses"]


@pytest.mark.usefixtures("with_types")
def test_an_action_that_takes_arguments_by_place_keeps_the_general_body(storage: Any) -> None:
    """Its arguments have no names to be listed by."""
    count = generated()["paths"]["/api/actors/tests.StorageActor/{key}/actions/count/"]["post"]

    assert count["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("RivetCallAction")


@pytest.mark.django_db
@pytest.mark.usefixtures("with_types")
def test_the_schema_tells_of_no_type_that_may_not_be_seen(
    storage: Any, counter: Any, anonymous: APIClient, staff: Callable[..., User], client_of: Callable[[Any], APIClient]
) -> None:
    """Also where everybody may read the schema."""
    for_anybody = anonymous.get("/api/schema/").content.decode()
    for_staff = client_of(staff("view_actor")).get("/api/schema/").content.decode()

    assert "tests.StorageActor" in for_anybody
    assert "tests.CounterActor" not in for_anybody
    assert "tests.CounterActor" in for_staff


@pytest.mark.parametrize(
    ("schema", "translated"),
    [
        (True, {}),
        (False, {"not": {}}),
        ({"type": "null"}, {"enum": [None], "nullable": True}),
        ({"const": 1}, {"enum": [1]}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
        ({"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}, {"allOf": [{"$ref": "#/x"}], "nullable": True}),
        (
            {"anyOf": [{"type": "string"}, {"const": 1}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"enum": [1]}], "nullable": True},
        ),
        (
            {"title": "A", "anyOf": [{"title": "B", "type": "string"}, {"type": "null"}]},
            {"title": "A", "anyOf": [{"title": "B", "type": "string"}], "nullable": True},
        ),
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}], "nullable": True}),
        ({"exclusiveMinimum": 0, "maximum": 9}, {"minimum": 0, "exclusiveMinimum": True, "maximum": 9}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1, "maxItems": 1},
            {"type": "array", "items": {}, "minItems": 1, "maxItems": 1},
        ),
        ({"type": "object", "required": [], "propertyNames": {"maxLength": 3}}, {"type": "object"}),
        (
            {"properties": {"const": {"const": 1}, "examples": {"type": "null"}}},
            {"properties": {"const": {"enum": [1]}, "examples": {"enum": [None], "nullable": True}}},
        ),
        ({"additionalProperties": {"const": 1}}, {"additionalProperties": {"enum": [1]}}),
        ({"additionalProperties": False, "examples": [1]}, {"additionalProperties": False}),
        ({"$ref": "#/x", "description": "y"}, {"allOf": [{"$ref": "#/x"}], "description": "y"}),
    ],
)
def test_json_schema_is_said_in_the_older_dialect(schema: Any, translated: Any) -> None:
    """What OpenAPI 3.0 has no word for is left out."""
    assert as_openapi_30(schema) == translated
