"""Races whose losers hang: what holds up their bodies, and what a look at the threads finds afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pytest

IN_BOTH_MODES = pytest.mark.parametrize(
    "mode",
    [
        pytest.param("one thread", marks=pytest.mark.django_db),
        pytest.param("threads", marks=pytest.mark.django_db(transaction=True)),
    ],
)
"""One after another, as in a ``TestCase``, or in threads: a test that does not care takes ``mode`` and ignores it."""

IN_THREADS = pytest.mark.django_db(transaction=True)

PATIENCE_SECONDS = 30.0


class Gate:
    """Holds up bodies until the test lets them go on; tells what became of them then.

    At the end of its ``with`` block all of them are let go, and have ended.
    """

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._others = threading.enumerate()
        self._waited_out = False
        self._held_up = 0
        self._changed = threading.Condition()
        self.entered = threading.Event()
        """Somebody stands before the gate."""
        self.refused: list[BaseException] = []
        """What those met that went on."""

    @property
    def is_shut(self) -> bool:
        return not self._opened.is_set()

    def hold_up(self) -> None:
        with self._counted():
            self._wait()

    def hold_up_and_then(self, act: Callable[[], Any]) -> Any:
        with self._counted():
            self._wait()
            try:
                return act()
            except BaseException as error:
                self.refused.append(error)
                raise

    def await_somebody(self) -> None:
        assert self.entered.wait(PATIENCE_SECONDS), "nobody came to the gate"

    def open(self) -> None:
        """And wait until whatever was held up has ended."""
        self._opened.set()
        # Who was held up has perhaps not been left behind yet: the winner does not wait for that.
        with self._changed:
            assert self._changed.wait_for(lambda: not self._held_up, PATIENCE_SECONDS), "somebody does not come through"
        for thread in threads_but(self._others, "rivet-left-behind"):
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def _wait(self) -> None:
        self.entered.set()
        if not self._opened.wait(PATIENCE_SECONDS):
            self._waited_out = True
            raise AssertionError("nobody opened the gate")

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._changed:
            self._held_up += 1
        try:
            yield
        finally:
            with self._changed:
                self._held_up -= 1
                self._changed.notify_all()

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open()
        assert not self._waited_out, "somebody has waited for a body that hangs"


def threads_but(others: Collection[threading.Thread], *prefixes: str) -> list[threading.Thread]:
    """Those with such names, without ``others``: threads of earlier tests may live on."""
    return [thread for thread in threading.enumerate() if thread not in others and thread.name.startswith(prefixes)]


def statuses(handle: Any) -> dict[str, str]:
    """Of all that is on record, by path."""
    return {entry.path: entry.status for entry in handle.history()}


def undone(handle: Any) -> dict[str, str]:
    """What became of the handlers, by the path of the step."""
    return {entry.path: entry.rollback.status for entry in handle.history() if entry.rollback}
