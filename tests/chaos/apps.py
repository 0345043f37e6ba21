"""An app of its own: its actors are known to the workers under fire only."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

LATENCY = "RIVET_CHAOS_LATENCY"
"""Seconds, on average, that a statement of a worker is on its way to the database."""


class ChaosConfig(AppConfig):
    name = "tests.chaos"
    label = "chaos"

    def ready(self) -> None:
        if LATENCY in os.environ:
            connection_created.connect(_lie_far_away, weak=False, dispatch_uid="chaos")


# Below: how it is done ---------------------------------------------------------------------------


def _lie_far_away(connection: Any, **kwargs: Any) -> None:
    """What lies between two statements is as wide as with a database in another building: there blows must hit, too."""
    if _delayed not in connection.execute_wrappers:
        connection.execute_wrappers.append(_delayed)


def _delayed(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    time.sleep(random.expovariate(1 / float(os.environ[LATENCY])))
    return execute(sql, params, many, context)
