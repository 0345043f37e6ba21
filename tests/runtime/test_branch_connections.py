"""The database connections of branches: one for each that runs in a thread, and none between two joins."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import connection

from django_rivet import Actor, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

BRANCHES = ("flight", "hotel", "car", "guide", "boat")


class Bodies:
    """The first two wait for each other; all of them tell who is connected while they run."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2)
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0
        self.sessions: list[set[int]] = []

    def book(self, name: str) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        connection.ensure_connection()
        if name in BRANCHES[:2]:
            self._barrier.wait(60)
        self.sessions.append(sessions())
        if name in BRANCHES[:2]:
            # Neither leaves before the other one has looked.
            self._barrier.wait(60)
        with self._lock:
            self._inside -= 1


def sessions() -> set[int]:
    """Of all clients of this test's database. SQLite has none."""
    if connection.vendor != "postgresql":
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return {pid for (pid,) in cursor.fetchall()}


@pytest.fixture
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.mark.usefixtures("actors")
def test_each_running_branch_holds_one_connection_and_none_is_left(settings) -> None:
    """As many as ``BRANCH_THREADS``, beside that of the drive; the threads are gone when the join has ended."""
    settings.RIVET = {"BRANCH_THREADS": 2}
    bodies = Bodies()
    before = sessions()

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            def booked(name):
                return lambda branch: branch.step("book", bodies.book, name, atomic=False, timeout=0)

            ctx.join("book", {name: booked(name) for name in BRANCHES})

    trip = Trip.create("ada")

    assert drive(trip) == "completed"
    assert bodies.most == 2
    assert all(len(found - before) <= 2 for found in bodies.sessions)
    assert connection.vendor != "postgresql" or max(len(found - before) for found in bodies.sessions) == 2
    wait_for_threads()
    assert sessions() - before == set()


@pytest.mark.usefixtures("actors")
def test_a_branch_that_waits_gives_its_connection_back(settings) -> None:
    """An actor that sleeps in five branches holds no connection for any of them."""
    settings.RIVET = {"BRANCH_THREADS": 5}
    before = sessions()

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.join("wait", {name: lambda branch: branch.sleep("a day", 86400) for name in BRANCHES})

    assert drive(Trip.create("ada")) == "sleeping"
    wait_for_threads()
    assert sessions() - before == set()


def wait_for_threads() -> None:
    """A thread closes its connection after its branch has ended, and its workflow does not wait for that."""
    for thread in threading.enumerate():
        if thread.name == "rivet-branch":
            thread.join(60)
            assert not thread.is_alive()
