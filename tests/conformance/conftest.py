"""What every case may need: actor classes of its own, and a world outside the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_rivet.testing import isolated_actors


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    """Actor classes that a test defines are its own."""
    with isolated_actors():
        yield


@pytest.fixture
def outside() -> list[Any]:
    """The outside world: a list that no rollback and no crash takes anything back from."""
    return []


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> str:
    """How the branches of a join run: see ``modes.IN_BOTH_MODES``."""
    return str(request.param)
