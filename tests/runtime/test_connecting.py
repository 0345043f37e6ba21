"""How many database connections a worker needs, and what it does with one that it kept."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.concurrency import get_implementation
from celery.signals import task_postrun, task_prerun
from django.db import connection

from django_rivet.runtime import connecting
from django_rivet.runtime.bell import TASK
from django_rivet.runtime.celery_tasks import REUSE, keep_connections
from django_rivet.runtime.celery_tasks import drive as drive_task
from django_rivet.runtime.sweeping import Sweeper, _pool_of
from django_rivet.store.capacity import Capacity


@pytest.fixture
def psycopg_pool(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options of a pool; as long as they are empty there is none."""
    options: dict[str, Any] = {}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"pool": options})
    return options


@pytest.mark.parametrize(
    ("pool", "concurrency", "need"),
    [
        ("solo", 1, 3),  # the drive, its heartbeat, the sweeper
        ("threads", 1, 3),
        ("threads", 32, 34),  # one heartbeat for all threads
        ("prefork", 1, 3),
        ("prefork", 8, 17),  # a heartbeat in each process
    ],
)
@pytest.mark.usefixtures("psycopg_pool")
def test_what_a_worker_needs(pool: str, concurrency: int, need: int) -> None:
    """One for each that drives, one for each heartbeat, one for the sweeper."""
    assert connecting.needed(pool, concurrency) == need


@pytest.mark.parametrize(
    ("pool", "concurrency", "need"),
    [
        ("solo", 1, 3 + 8),
        ("threads", 32, 34 + 8),  # branches of all drives share the process's threads
        ("prefork", 1, 3 + 8),
        ("prefork", 4, 9 + 4 * 8),  # each child has threads of its own
    ],
)
@pytest.mark.usefixtures("psycopg_pool")
def test_what_a_worker_needs_while_branches_run(pool: str, concurrency: int, need: int) -> None:
    """One more for each branch that runs in a thread."""
    assert connecting.needed(pool, concurrency, branches=8) == need


def test_a_pool_of_psycopgs_keeps_open_what_it_is_told_to(psycopg_pool: dict[str, Any]) -> None:
    """In each process, used or not."""
    psycopg_pool["min_size"] = 5
    assert connecting.needed("prefork", 4) == 4 * 5 + 5
    assert connecting.needed("threads", 2) == 5
    assert connecting.needed("threads", 4) == 6


@pytest.mark.usefixtures("psycopg_pool")
def test_a_server_with_too_few_connections_is_told_of_with_numbers() -> None:
    """And with the two settings that change it."""
    assert connecting.shortage("prefork", 4, Capacity(limit=97, used=88)) is None

    text = connecting.shortage("prefork", 4, Capacity(limit=97, used=89))

    assert text is not None
    assert "may need 9 database connections (prefork, concurrency 4)" in text
    assert "8 left of 97" in text
    assert "--concurrency" in text
    assert "max_connections" in text


@pytest.mark.usefixtures("psycopg_pool")
def test_a_worker_without_joins_is_not_told_of_what_they_would_need(settings: Any) -> None:
    """Both numbers stand in the text, where the smaller one is already too much."""
    settings.RIVET = {"BRANCH_THREADS": 5}
    assert connecting.shortage("prefork", 4, Capacity(limit=97, used=88)) is None
    assert connecting.shortage("prefork", 4, Capacity(limit=97, used=68), with_joins=True) is None

    with_joins = connecting.shortage("prefork", 4, Capacity(limit=97, used=69), with_joins=True)
    without = connecting.shortage("prefork", 4, Capacity(limit=97, used=96))

    assert with_joins is not None
    assert "where actors use joins, this worker may need up to 29" in with_joins
    assert "28 left of 97 (without joins 9, which is enough)" in with_joins
    assert 'RIVET["BRANCH_THREADS"]' in with_joins
    assert without is not None
    assert "may need 9 database connections (prefork, concurrency 4), with joins up to 29, and" in without


def test_a_pool_of_psycopgs_that_is_too_small_for_branches_is_told_of(psycopg_pool: dict[str, Any]) -> None:
    """Branches take theirs from the same pool as the drives."""
    psycopg_pool["max_size"] = 27
    assert connecting.too_small_a_pool("threads", 18, with_joins=True) is not None
    assert connecting.too_small_a_pool("threads", 18) is None

    psycopg_pool["max_size"] = 28
    assert connecting.too_small_a_pool("threads", 18, with_joins=True) is None


@pytest.mark.parametrize(
    ("used", "level"), [(92, logging.WARNING), (91, logging.INFO), (84, logging.INFO), (83, None)], ids=str
)
@pytest.mark.usefixtures("psycopg_pool")
def test_what_may_lack_only_while_branches_run_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, used: int, level: int | None
) -> None:
    """Most workers never meet a join: 6 of 97 are warned of, 14 are told for information."""
    monkeypatch.setattr(connecting, "capacity", lambda: Capacity(limit=97, used=used))
    with caplog.at_level(logging.INFO, "django_rivet.runtime.connecting"):
        connecting.warn("threads", 4)

    told = [record.levelno for record in caplog.records if record.name == "django_rivet.runtime.connecting"]
    assert told == ([] if level is None else [level])


def test_a_pool_of_psycopgs_that_is_too_small_for_its_for_its_threads_is_told_of(psycopg_pool: dict[str, Any]) -> None:
    """They would wait for each other, and time out."""
    psycopg_pool["max_size"] = 20
    assert connecting.too_small_a_pool("threads", 18) is None

    text = connecting.too_small_a_pool("threads", 19)

    assert text is not None
    assert "may need 21" in text
    assert "gives 20" in text
    assert '["OPTIONS"]["pool"]' in text


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("psycopg_pool")
def test_a_worker_that_starts_tells_of_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the database does not answer yet, as soon as it does."""
    answers: Iterator[OSError | Capacity] = iter([OSError("not yet"), Capacity(limit=10, used=9)])
    looked: list[int] = []

    def capacity() -> Capacity:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(connecting, "capacity", capacity)
    monkeypatch.setattr(Sweeper, "sweep", lambda self: looked.append(1))
    sweeper = Sweeper(lambda *args: None, pause=0.01, first=lambda: connecting.warn("threads", 4))
    with caplog.at_level(logging.WARNING, "django_rivet.runtime.connecting"):
        sweeper.start()
        while len(looked) < 3:
            sweeper._stop.wait(0.01)
        sweeper.stop()

    told = [record.getMessage() for record in caplog.records if record.name == "django_rivet.runtime.connecting"]
    assert [text.split(" (")[0] for text in told] == ["this worker may need 6 database connections"]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_worker_knows_its_pool_by_the_name_that_it_was_given(pool: str) -> None:
    """What it needs depends on it, and the warning tells it: Celery itself has another name for one of them."""
    assert _pool_of(SimpleNamespace(pool_cls=get_implementation(pool))) == pool


@pytest.fixture
def app() -> Iterator[Celery]:
    """A project's Celery app; what is connected for it is gone afterwards."""
    yield Celery("shop", set_as_current=False)
    for signal in (task_prerun, task_postrun):
        signal.disconnect(dispatch_uid="django_rivet.connections")


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
@pytest.mark.usefixtures("psycopg_pool")
def test_celery_is_told_to_leave_connections_open(app: Celery, pool: str) -> None:
    """It would close them before and after each drive."""
    keep_connections(app, pool)

    assert app.conf.get(REUSE)


def test_what_the_project_has_set_for_celery_stays(app: Celery) -> None:
    """Then connections are Celery's business."""
    app.conf[REUSE] = 7

    keep_connections(app, "prefork")

    assert app.conf[REUSE] == 7


def test_threads_that_share_psycopg_s_pool_give_connections_back(app: Celery, psycopg_pool: dict[str, Any]) -> None:
    """A pool that is smaller than the number of threads would else be empty for ever."""
    psycopg_pool["max_size"] = 2

    keep_connections(app, "threads")

    assert not app.conf.get(REUSE)


@pytest.mark.django_db(transaction=True)
def test_other_tasks_of_the_project_find_no_connection_that_was_kept(app: Celery) -> None:
    """Nor does one of theirs stay behind: they do not look whether it is still alive."""
    own = app.task(name=TASK)(_nothing)
    others = app.task(name="shop.send_newsletter")(_nothing)
    keep_connections(app, "prefork")
    connection.ensure_connection()

    task_prerun.send(sender=own)
    assert connection.connection is not None
    task_prerun.send(sender=others)
    assert connection.connection is None


@pytest.mark.django_db(transaction=True)
def test_a_kept_connection_that_is_dead_costs_no_drive() -> None:
    """It is found out before the drive, also where Django was told nothing of it. SQLite has no server to lose."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
        import psycopg

        with psycopg.connect(**_parameters()) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    drive_task(str(uuid.uuid4()))

    assert connection.is_usable()


def _nothing() -> None:
    """The body of a task."""


def _parameters() -> dict[str, Any]:
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in ("dbname", "user", "host", "port") if name in parameters}
