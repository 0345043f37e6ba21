"""What every test may need: servers that are there, and an environment for other processes."""

import itertools
import os
from collections.abc import Iterator

import pytest
import redis
from django.db import connection

from tests.services import follow_parent


def pytest_configure() -> None:
    """Refuse a leg without its server, which would test something else; leave no workers."""
    database = os.environ.get("RIVET_TEST_DATABASE")
    if database == "postgresql" and not os.environ.get("RIVET_TEST_POSTGRES_URL"):
        raise pytest.UsageError(
            "RIVET_TEST_DATABASE=postgresql without RIVET_TEST_POSTGRES_URL."
            " Put `python -m tests.services --` in front of the command, or set the URL."
        )
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Else a worker finishes its test, and keeps what that started, long after the
        # pytest that wanted it was killed.
        follow_parent()


DATABASES_OF_REDIS = 16

_turn = itertools.count()


@pytest.fixture
def redis_url(worker_id: str) -> Iterator[str]:
    """An empty Redis database that no test in another xdist worker shares.

    Nor has the test before: its processes may still be on their way out.
    Published messages know no databases: they need names of their own.
    """
    url = os.environ.get("RIVET_TEST_REDIS_URL")
    if not url:
        pytest.fail("No RIVET_TEST_REDIS_URL. Start pytest behind `python -m tests.services --`.")
    first = 0 if worker_id == "master" else int(worker_id.removeprefix("gw"))
    numbers = range(1 + first, DATABASES_OF_REDIS, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    number = numbers[next(_turn) % len(numbers)]
    own = f"{url.rsplit('/', 1)[0]}/{number}"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def child_environment(transactional_db: None) -> dict[str, str]:
    """The environment for a process that is to work on this test's database.

    It sees what is committed only, hence `transactional_db`. Add REDIS_URL for a broker.
    Start it with `preexec_fn=tests.services.dies_with_parent()`, so that it can't be left over.
    """
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "RIVET_TEST_DATABASE_NAME": str(connection.settings_dict["NAME"]),
    }
