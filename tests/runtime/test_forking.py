"""A fork finds the thread that uses databases at rest, and nothing of it open."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from django_rivet.runtime import forking
from django_rivet.runtime.sweeping import Sweeper
from tests.journeys.workers import eventually
from tests.runtime.forks import (
    Undisturbed,
    child_sees,
    impatient,
    open_sockets,
    other,
    patient,
    use_the_database,
)
from tests.runtime.test_turns import at_once

__all__ = ["impatient", "other", "patient"]  # fixtures

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # Later Pythons warn of what is the subject here.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released by each fork that begins to wait for the other thread."""
    forks = threading.Semaphore(0)
    pause = forking._Work.pause

    def pause_and_tell(work: forking._Work) -> None:
        forks.release()
        pause(work)

    monkeypatch.setattr(forking._Work, "pause", pause_and_tell)
    return forks


def is_at_rest(conn: Any) -> bool:
    """As a child sees it that was forked well."""
    return conn.connection is None and not forking._work.lock.locked()


@pytest.mark.usefixtures("patient")
def test_a_fork_waits_until_the_other_thread_has_done_its_work(other: Undisturbed, forks: threading.Semaphore) -> None:
    """Whatever that is at: the child gets no copy of anything half done."""
    order: list[str] = []
    has_begun = threading.Event()

    def work() -> Any:
        conn = use_the_database()
        has_begun.set()
        order.append("waited for" if forks.acquire(timeout=30) else "nobody has waited")
        return conn

    working = other(work)
    assert has_begun.wait(60)

    assert child_sees(lambda: order == ["waited for"])
    assert working.result(60).connection is None


@pytest.mark.usefixtures("patient")
def test_a_fork_leaves_nothing_open_to_share(other: Undisturbed) -> None:
    """Neither in the child nor behind its back; the thread opens another connection when it next needs one."""
    conn = other(use_the_database).result(60)
    before = conn.connection
    sockets = {f"socket:[{os.fstat(before.fileno()).st_ino}]"} if connection.vendor == "postgresql" else set()
    assert sockets <= open_sockets()

    assert child_sees(lambda: is_at_rest(conn) and not sockets & open_sockets())

    assert conn.connection is None
    assert other(use_the_database).result(60) is conn
    assert conn.connection is not None


@pytest.mark.usefixtures("patient")
def test_the_next_fork_finds_the_other_thread_at_rest_as_well(other: Undisturbed) -> None:
    """And so does one that finds nothing to close."""
    for _ in range(2):
        conn = other(use_the_database).result(60)
        assert child_sees(lambda conn=conn: is_at_rest(conn))
        assert child_sees(lambda conn=conn: is_at_rest(conn))


@pytest.mark.usefixtures("patient")
def test_two_threads_that_fork_at_the_same_time_wait_both(other: Undisturbed, forks: threading.Semaphore) -> None:
    """One after the other, and the thread in whose way they were works on."""
    order: list[str] = []
    in_use: list[Any] = []
    has_begun = threading.Event()

    def work() -> None:
        in_use.append(use_the_database())
        has_begun.set()
        waiting = [forks.acquire(timeout=30) for _ in range(2)]
        order.append(f"waited for by {sum(waiting)}")

    working = other(work)
    assert has_begun.wait(60)

    def look() -> bool:
        return order == ["waited for by 2"] and is_at_rest(in_use[0])

    assert at_once(2, lambda number: child_sees(look)) == [True, True]

    working.result(60)
    assert other(use_the_database).result(60) is in_use[0]


@pytest.mark.usefixtures("impatient")
def test_a_fork_does_not_wait_for_ever(other: Undisturbed) -> None:
    """Where the thread hangs, the worker gets its process all the same, which begins anew; the thread is left alone."""
    goes_on = threading.Event()
    has_begun = threading.Event()

    def hang() -> Any:
        conn = use_the_database()
        has_begun.set()
        assert goes_on.wait(60)
        return conn, conn.connection is not None

    hanging = other(hang)
    assert has_begun.wait(60)

    # When the process forks meanwhile
    assert child_sees(lambda: not goes_on.is_set() and not forking._work.lock.locked())

    # Then the thread has lost nothing by it, and is waited for again
    goes_on.set()
    conn, was_open = hanging.result(60)
    assert was_open
    assert child_sees(lambda: is_at_rest(conn))
    assert other(use_the_database).result(60) is conn


@pytest.mark.usefixtures("patient")
def test_a_signal_that_ends_the_wait_of_a_fork_takes_nothing_from_the_other_thread(
    other: Undisturbed, forks: threading.Semaphore
) -> None:
    """A time limit may ring in it. The thread is still undisturbed, and no fork frees what it has not taken."""

    class OutOfTimeError(Exception):
        pass

    def ring(*args: object) -> None:
        if not has_rung.is_set():
            has_rung.set()
            raise OutOfTimeError

    def interrupt() -> None:
        """Again and again: a signal that comes just before the wait begins does not end it."""
        if forks.acquire(timeout=30):
            while not has_rung.wait(0.05):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def work() -> bool:
        has_begun.set()
        return goes_on.wait(60) and forking._work.lock.locked()

    has_begun, has_rung, goes_on = threading.Event(), threading.Event(), threading.Event()
    assert child_sees(lambda: True)
    assert forks.acquire(timeout=30), "this thread has forked before"
    working = other(work)
    assert has_begun.wait(60)

    # When the wait of another fork is interrupted; Python would print what is raised there, and fork all the same
    before = signal.signal(signal.SIGUSR1, ring)
    sender = threading.Thread(target=interrupt)
    sender.start()
    try:
        with pytest.raises(OutOfTimeError):
            forking._work.pause()
    finally:
        forking._work.resume()
        has_rung.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)

    # Then the thread still has what it works under
    goes_on.set()
    assert working.result(60)


@pytest.mark.usefixtures("patient")
def test_one_that_cannot_be_closed_keeps_no_other_open(other: Undisturbed, caplog: pytest.LogCaptureFixture) -> None:
    """A fork is no place to fail in: it is told to the log."""

    def refuse() -> None:
        raise OSError("it does not close")

    conn = other(use_the_database).result(60)
    forking._work.kept.insert(0, SimpleNamespace(vendor="another", alias="archive", close=refuse))

    assert child_sees(lambda: is_at_rest(conn))

    assert "connection 'archive' was not closed before a fork" in caplog.text
    assert other(use_the_database).result(60) is conn


def test_a_process_without_such_a_thread_forks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web process that has never swept, for one; what its own thread has open stays so."""
    monkeypatch.setattr(forking, "_work", forking._Work())
    Group.objects.count()

    assert child_sees(lambda: not forking._work.lock.locked())

    assert connection.connection is not None
    assert not forking._work.lock.locked()


@pytest.mark.usefixtures("patient")
def test_a_sweeper_looks_undisturbed_and_goes_on_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one thread that a worker has for the database beside the one that forks."""
    looks: list[bool] = []

    def sweep(sweeper: Sweeper) -> None:
        use_the_database()
        looks.append(forking._work.lock.locked())

    monkeypatch.setattr(Sweeper, "sweep", sweep)
    sweeper = Sweeper(lambda *args: None, pause=0.01)
    sweeper.start()
    try:
        eventually(lambda: looks, 60, "it looks")
        assert child_sees(lambda: not forking._work.lock.locked())
        before = len(looks)
        eventually(lambda: len(looks) > before + 1, 60, "it looks again")
    finally:
        sweeper.stop()

    assert all(looks)
