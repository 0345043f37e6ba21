"""Errors as data."""

from __future__ import annotations

import contextlib

import pytest

from django_rivet.engine.durations import seconds
from django_rivet.engine.failures import describe


def broken() -> None:
    raise LookupError("no such card")


def test_a_traceback_begins_with_the_users_code() -> None:
    """How the engine came to call it helps nobody at three in the morning."""
    with contextlib.ExitStack():
        try:
            broken()
        except LookupError as error:
            info = describe(error)

    assert info.stack.count("File ") == 2
    assert "in broken" in info.stack


def test_a_traceback_of_the_engines_own_keeps_its_last_frame() -> None:
    """There is always something to go by."""
    with pytest.raises(ValueError, match="the delay") as raised:
        seconds("soon", "the delay")

    assert "durations.py" in describe(raised.value).stack
