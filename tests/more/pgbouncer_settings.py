"""Settings of the workers behind PgBouncer: what Django's documentation asks for, and nothing else."""

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
DATABASES["default"]["OPTIONS"] = {"prepare_threshold": None}
