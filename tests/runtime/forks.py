"""Forks of the tests' own process: the child looks at what it was born with, says what it saw, and is gone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from django_rivet.runtime import forking
from django_rivet.runtime.forking import undisturbed

ENDS_IN = 60.0


def child_sees(look: Callable[[], object]) -> bool:
    """Fork. Whether ``look`` answers yes in the child, which does nothing else, and must not ask the database."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if look() else 1
        finally:
            os._exit(code)
    return _end_of(pid) == 0


def open_sockets() -> set[str]:
    """Of this process, by names that a child's copies bear as well."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # that of the listing itself
        if name.startswith("socket:"):
            found.add(name)
    return found


Undisturbed = Callable[[Callable[[], Any]], "Future[Any]"]


@pytest.fixture
def other(transactional_db: None) -> Iterator[Undisturbed]:
    """The thread that uses databases beside the one that forks: ``other(work)`` has it work, undisturbed."""
    orders: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()

    def serve() -> None:
        while (order := orders.get()) is not None:
            work, outcome = order
            try:
                with undisturbed():
                    value = work()
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(value)
        connections.close_all()

    def order(work: Callable[[], Any]) -> Future[Any]:
        outcome: Future[Any] = Future()
        orders.put((work, outcome))
        return outcome

    # A daemon: should it ever hang, a test fails, and the run goes on.
    thread = threading.Thread(target=serve, name="other", daemon=True)
    thread.start()
    yield order
    orders.put(None)
    thread.join(60)
    assert not thread.is_alive(), "it waits for a fork that is over"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, no fork goes on without the other thread."""
    monkeypatch.setattr(forking, "SERVER_SECONDS", 60.0)
    monkeypatch.setattr(forking, "SQLITE_SECONDS", 60.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork goes on almost at once."""
    monkeypatch.setattr(forking, "SERVER_SECONDS", 0.05)
    monkeypatch.setattr(forking, "SQLITE_SECONDS", 0.05)


def use_the_database() -> Any:
    Group.objects.count()
    return connections["default"]


# Below: how it is done ---------------------------------------------------------------------------


def _end_of(pid: int) -> int:
    until = time.monotonic() + ENDS_IN
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError("the child hangs in what it looks at")
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])
