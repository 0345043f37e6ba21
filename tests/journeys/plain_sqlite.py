"""The tests' settings with SQLite as Django sets it up by itself: no WAL, no IMMEDIATE, five seconds of patience."""

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {}
