"""Actor classes that exist in one test only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django_rivet.actors.registry import registry


@contextmanager
def isolated_actors(app_label: str = "tests") -> Iterator[None]:
    """Actor classes defined inside are registered only there, under that app label."""
    with registry.isolated(app_label):
        yield
