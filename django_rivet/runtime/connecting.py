"""The database connections of a worker: how many it may hold, and what is done with one that is kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db import connections

from django_rivet.store.capacity import Capacity, capacity
from django_rivet.store.database import alias

logger = logging.getLogger(__name__)

PSYCOPG_POOL_MIN = 4
"""What ``"pool": True`` keeps open."""


def needed(pool: str, concurrency: int) -> int:
    """The most connections to the engine's database that a worker holds at once.

    ``pool`` and ``concurrency`` as for ``rivet_worker``. Each process or thread that drives has one, each of these
    processes one more for its heartbeat while a body lasts long, and the sweeper has one.
    """
    keeps = _kept_open(psycopg_pool())
    if pool == "prefork":
        return concurrency * max(2, keeps) + max(1, keeps)
    return max((1 if pool == "solo" else concurrency) + 2, keeps)


def warn(pool: str, concurrency: int) -> None:
    """Tell the log where there may be too few connections for a worker. Asks the database once."""
    server = capacity()
    texts = [server and shortage(pool, concurrency, server), too_small_a_pool(pool, concurrency)]
    for text in filter(None, texts):
        logger.warning(text)


def shortage(pool: str, concurrency: int, server: Capacity) -> str | None:
    """What to tell the operator where the server may not have as many left; None where it has."""
    need = needed(pool, concurrency)
    free = server.limit - server.used
    if need <= free:
        return None
    return (
        f"this worker may need {need} database connections ({pool}, concurrency {concurrency}), and the server has "
        f"{max(0, free)} left of {server.limit}; lower --concurrency, or raise max_connections in postgresql.conf "
        "(what does not get a connection is tried again)"
    )


def too_small_a_pool(pool: str, concurrency: int) -> str | None:
    """The same for psycopg's pool, where threads share one."""
    options = psycopg_pool()
    if pool == "prefork" or not options:
        return None
    most = options.get("max_size") or _kept_open(options)
    need = needed(pool, concurrency)
    if need <= most:
        return None
    return (
        f"this worker may need {need} database connections ({pool}, concurrency {concurrency}), and psycopg's pool "
        f'gives {most}; raise "max_size" in DATABASES["{alias()}"]["OPTIONS"]["pool"], or lower --concurrency'
    )


def psycopg_pool() -> Mapping[str, Any]:
    """The options of psycopg's pool; empty where there is none."""
    options: Any = connections[alias()].settings_dict.get("OPTIONS", {}).get("pool")
    if options is True:
        return {"min_size": PSYCOPG_POOL_MIN}
    return options or {}


def make_ready() -> None:
    """Before a drive: one that is kept may be dead, or older than ``CONN_MAX_AGE`` allows. 0 there is not meant for us:
    it stands for a new connection with each web request.
    """
    for each in connections.all(initialized_only=True):
        if each.in_atomic_block:
            continue
        if each.alias != alias() or each.settings_dict["CONN_MAX_AGE"] != 0:
            each.close_if_unusable_or_obsolete()
        if each.connection is not None and not each.is_usable():
            each.close()


# Below: how it is done ---------------------------------------------------------------------------


def _kept_open(options: Mapping[str, Any]) -> int:
    return int(options.get("min_size", PSYCOPG_POOL_MIN)) if options else 0
