"""The tests' settings with this app, for other processes: the pytest process keeps its own."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.api.fuzzed"]
