"""The tests' settings, with the actors that are driven under fire, on a database of their own."""

import os
from pathlib import Path

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.chaos"]

# Servers are shared with tests that run beside: this database must not be theirs.
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    _folder = Path(str(DATABASES["default"]["NAME"])).parent
    DATABASES["default"]["TEST"] = {"NAME": str(_folder / f"rivet-chaos-{os.getpid()}.sqlite3")}
else:
    DATABASES["default"]["TEST"] = {"NAME": f"test_rivet_chaos_{os.getpid()}"}
