"""A fork finds psycopg's pool closed, where the settings ask for one: it keeps sessions, and threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections

from tests.runtime.forks import Undisturbed, child_sees, impatient, other, patient, use_the_database

__all__ = ["impatient", "other", "patient"]  # fixtures

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # Later Pythons warn of what is the subject here.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def pooled(transactional_db: None) -> Iterator[None]:
    """All connections come from a pool; the test's own thread has none."""
    connections.close_all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict, "OPTIONS", {"pool": {"min_size": 1, "max_size": 2}})
        yield
        connections.close_all()
        connection.close_pool()  # type: ignore[attr-defined]  # only this vendor has one


def pool_of_this_process() -> Any:
    """None where nobody has opened one."""
    return connection._connection_pools.get("default")  # type: ignore[attr-defined]  # as above


@pytest.mark.usefixtures("patient")
def test_a_fork_closes_the_pool_before(other: Undisturbed) -> None:
    """Each of the two processes opens one of its own, and shares no session."""
    other(use_the_database).result(60)
    pool = pool_of_this_process()
    assert not pool.closed

    assert child_sees(lambda: pool.closed and pool_of_this_process() is None)

    other(use_the_database).result(60)
    assert pool_of_this_process() not in (None, pool)


@pytest.mark.usefixtures("impatient")
def test_a_fork_that_could_not_wait_leaves_the_pool_to_the_thread(other: Undisturbed) -> None:
    """The new process has none of its sessions to hand out a second time."""
    goes_on, has_begun = threading.Event(), threading.Event()

    def hang() -> None:
        use_the_database()
        has_begun.set()
        assert goes_on.wait(60)
        use_the_database()

    hanging = other(hang)
    assert has_begun.wait(60)
    pool = pool_of_this_process()

    assert child_sees(lambda: not pool.closed and pool_of_this_process() is None)

    assert not pool.closed
    assert pool_of_this_process() is pool
    goes_on.set()
    hanging.result(60)
