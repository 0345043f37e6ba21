"""The database connections of branches: one for each that runs in a thread, and none between two joins."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection

from django_rivet import Actor, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

BRANCHES = ("flight", "hotel", "car", "guide", "boat")
PATIENCE = 60


class Bodies:
    """The first two wait for each other; all of them tell on which connection they were."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2)
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0
        self.sessions: dict[str, int] = {}

    def book(self, name: str) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        self.sessions[name] = session()
        if name in BRANCHES[:2]:
            self._barrier.wait(PATIENCE)
        with self._lock:
            self._inside -= 1


def session() -> int:
    """What the server knows this thread's connection by. SQLite has no server: the connection itself counts."""
    connection.ensure_connection()
    return connection.connection.info.backend_pid if connection.vendor == "postgresql" else id(connection.connection)


def sessions() -> set[int]:
    """Of all clients of this test's database. SQLite has none."""
    if connection.vendor != "postgresql":
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return {pid for (pid,) in cursor.fetchall()}


def let_go_of(seen: set[int]) -> bool:
    """The server needs a moment to notice, and a thread to end: its workflow waits for neither."""
    ends = time.monotonic() + PATIENCE
    while sessions() & seen or any(thread.name == "rivet-branch" for thread in threading.enumerate()):
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.mark.usefixtures("actors")
def test_each_running_branch_holds_one_connection_and_none_is_left(settings) -> None:
    """As many as ``BRANCH_THREADS``, beside that of the drive; the threads are gone when the join has ended."""
    settings.RIVET = {"BRANCH_THREADS": 2}
    bodies = Bodies()

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            def booked(name):
                return lambda branch: branch.step("book", bodies.book, name, atomic=False, timeout=0)

            ctx.join("book", {name: booked(name) for name in BRANCHES})

    assert drive(Trip.create("ada")) == "completed"

    assert bodies.most == 2
    assert sorted(bodies.sessions) == sorted(BRANCHES)
    assert len({bodies.sessions["flight"], bodies.sessions["hotel"], session()}) == 3
    assert let_go_of(set(bodies.sessions.values()) - {session()})


@pytest.mark.usefixtures("actors")
def test_a_branch_that_waits_gives_its_connection_back(settings) -> None:
    """An actor that sleeps in five branches holds no connection for any of them."""
    settings.RIVET = {"BRANCH_THREADS": 5}
    seen: set[int] = set()

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.join("wait", dict.fromkeys(BRANCHES, self.waiting))

        def waiting(self, branch):
            branch.step("ask", lambda: seen.add(session()), atomic=False)
            branch.sleep("a day", 86400)

    assert drive(Trip.create("ada")) == "sleeping"

    assert seen - {session()}
    assert let_go_of(seen - {session()})
