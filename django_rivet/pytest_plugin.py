"""The fixture ``rivet``: everything of ``django_rivet.testing`` as methods."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest


class Rivet:
    """See ``django_rivet.testing``; imported late, since a plugin is loaded before Django is set up."""

    def __getattr__(self, name: str) -> Any:
        from django_rivet import testing

        if name not in testing.__all__:
            raise AttributeError(name)
        return getattr(testing, name)


@pytest.fixture
def rivet() -> Rivet:
    """``rivet.drive(handle)``, ``rivet.advance(60)``, ``rivet.crash_at(3)`` ..."""
    return Rivet()


@pytest.fixture(autouse=True)
def _rivet_clock() -> Iterator[None]:
    yield
    if "django_rivet.store.database" in sys.modules:
        from django_rivet.testing.clock import reset_clock

        reset_clock()
