"""Actor classes of these tests are theirs alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_rivet.actors.registry import Registry, registry


@pytest.fixture(autouse=True)
def isolated() -> Iterator[Registry]:
    with registry.isolated("tests"):
        yield registry
