"""All sorts of requests that the OpenAPI schema allows, and many that it does not, to a real server."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import Permission, User
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.journeys.web import WebProcess

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.journey, pytest.mark.timeout(600)]

TYPES = ("fuzzed.Open", "fuzzed.Members", "fuzzed.Closed")
CHECKS: list[Callable[..., Any]] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = {"anonymous": 3, "member": 4, "staff": 7}
"""Requests to each operation, of those that the schema allows and of the others."""


@pytest.fixture
def server(child_environment: dict[str, str], tmp_path: Any) -> Iterator[WebProcess]:
    users = {
        "member": User.objects.create_user("member", password="member"),
        "staff": User.objects.create_user("staff", password="staff", is_staff=True),
    }
    users["staff"].user_permissions.set(Permission.objects.filter(content_type__app_label="django_rivet"))
    environment = {**child_environment, "DJANGO_SETTINGS_MODULE": "tests.api.fuzzed.settings"}
    server = WebProcess(environment, tmp_path / "web.log", "staff")
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize("who", EXAMPLES)
def test_no_request_meets_a_bug_or_an_answer_that_was_not_declared(server: WebProcess, who: str) -> None:
    """No 5xx; every status, header and body is one that the schema declares."""
    url = f"http://127.0.0.1:{server.port}"
    login = base64.b64encode(f"{who}:{who}".encode()).decode()
    headers = {} if who == "anonymous" else {"Authorization": f"Basic {login}"}
    schema = schemathesis.openapi.from_url(f"{url}/api/schema/?format=json", headers=headers)
    asked: set[int] = set()

    for operation in operations_of(schema):
        for type_name in TYPES:
            server.ask("PUT", f"{type_name}/main/", {})
        for mode in GenerationMode:
            fuzz(operation, mode, EXAMPLES[who], url, headers, asked)

    # It came past the door; which refusals so few requests meet is up to chance.
    assert asked >= {200, 201, 202, 400}
    assert who == "staff" or 403 in asked
    assert "Traceback" not in server.log.read_text()


# Below: how it is done ---------------------------------------------------------------------------


def operations_of(schema: Any) -> Iterator[Any]:
    """The general routes, and those of the type that takes values of every sort from everybody."""
    for result in schema.get_all_operations():
        operation = result.ok()
        if re.match(r"/api/actors/($|\{type\}/|fuzzed\.Open/)", operation.path):
            yield operation


def fuzz(
    operation: Any, mode: GenerationMode, examples: int, url: str, headers: dict[str, str], asked: set[int]
) -> None:
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), names=st.fixed_dictionaries(NAMES))
    def ask(case: Case, names: dict[str, str | None]) -> None:
        for name, value in names.items():
            if value is not None and name in case.path_parameters:
                case.path_parameters[name] = value
        if isinstance(case.body, dict) and "wait" in case.body:
            # No worker answers here.
            case.body["timeout"] = 0
        response = case.call(base_url=url, headers=headers, timeout=60)
        asked.add(response.status_code)
        case.validate_response(response, checks=CHECKS, headers=headers)

    ask()


# Made up names lead nowhere: half of the requests go to what is there.
NAMES: dict[str, st.SearchStrategy[str | None]] = {
    "type": st.sampled_from([None, *TYPES]),
    "key": st.sampled_from([None, "main", "main", "new~1", "~~~"]),
    "action": st.sampled_from([None, "store", "count", "plan", "echo"]),
    "queue": st.sampled_from([None, "arrivals", "anything"]),
}
