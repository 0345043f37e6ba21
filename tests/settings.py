"""The example's settings on a database of the tests' own: RIVET_TEST_DATABASE says which."""

import json
import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dj_database_url

from example_project.settings import *  # noqa: F403
from example_project.settings import INSTALLED_APPS, SQLITE_OPTIONS

INSTALLED_APPS = [*INSTALLED_APPS, "tests", "tests.journeys"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
SECRET_KEY = "only-for-the-tests"


def _sqlite() -> dict[str, Any]:
    folder = os.environ.get("RIVET_TEST_DIR") or tempfile.gettempdir()
    name = str(Path(folder) / f"rivet-tests-{os.getpid()}.sqlite3")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": SQLITE_OPTIONS,
        # Django's own choice is a database in memory, which other processes can't open.
        "TEST": {"NAME": name},
    }


def _postgresql() -> dict[str, Any]:
    # Without a server's URL this leads nowhere, and conftest.py refuses to run.
    url = os.environ.get("RIVET_TEST_POSTGRES_URL", "postgresql:///")
    return {**dj_database_url.parse(url), "TEST": {"NAME": "test_rivet"}}


_databases = {"sqlite": _sqlite, "postgresql": _postgresql}
DATABASES = {"default": _databases[os.environ.get("RIVET_TEST_DATABASE") or "sqlite"]()}

# Journeys wait for leases to run out: they make them short.
RIVET = json.loads(os.environ.get("RIVET_TEST_SETTINGS") or "{}")

# A worker of a test may be one whose clock is wrong, by so many seconds: in all of Python, and from here on.
if _skew := float(os.environ.get("RIVET_TEST_CLOCK_SKEW") or 0):
    import time_machine

    time_machine.travel(datetime.now(UTC) + timedelta(seconds=_skew), tick=True).start()
    time.time()  # the wrong clock starts when it is first read

# A process that a test starts (fixture `child_environment`) joins that test's database.
if _name := os.environ.get("RIVET_TEST_DATABASE_NAME"):
    DATABASES["default"]["NAME"] = _name
