"""The database connections of a worker: how many it may hold, and what is done with one that is kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db import connections

from django_rivet.conf import get_settings
from django_rivet.store.capacity import Capacity, capacity
from django_rivet.store.database import alias

logger = logging.getLogger(__name__)

PSYCOPG_POOL_MIN = 4
"""What ``"pool": True`` keeps open."""


def needed(pool: str, concurrency: int, branches: int = 0) -> int:
    """The most connections to the engine's database that a worker holds at once.

    ``pool`` and ``concurrency`` as for ``rivet_worker``. Each process or thread that drives has one, each of these
    processes one more for its heartbeat while a body lasts long, and the sweeper has one. ``branches``: of joins, that
    may run in a thread at the same time in one process (``BRANCH_THREADS``); each has one until it ends or waits.
    """
    keeps = _kept_open(psycopg_pool())
    if pool == "prefork":
        return concurrency * max(2 + branches, keeps) + max(1, keeps)
    return max((1 if pool == "solo" else concurrency) + 2 + branches, keeps)


def warn(pool: str, concurrency: int) -> None:
    """Tell the log where there may be too few connections for a worker. Asks the database once.

    Nobody knows whether any actor has a join. So what may lack only while branches run is no warning: it is told at
    level ``INFO``.
    """
    server = capacity()
    lacks = [server and shortage(pool, concurrency, server), too_small_a_pool(pool, concurrency)]
    for text in filter(None, lacks):
        logger.warning(text)
    if any(lacks):
        return
    lacks = [
        server and shortage(pool, concurrency, server, with_joins=True),
        too_small_a_pool(pool, concurrency, with_joins=True),
    ]
    for text in filter(None, lacks):
        logger.info(text)


def shortage(pool: str, concurrency: int, server: Capacity, *, with_joins: bool = False) -> str | None:
    """What to tell the operator where the server may not have as many left; None where it has.

    ``with_joins``: also where it has too few for as many branches as may run at the same time.
    """
    free = server.limit - server.used
    there_is = f"the server has {max(0, free)} left of {server.limit}"
    remedy = "or raise max_connections in postgresql.conf (what does not get a connection is tried again)"
    return _lack(pool, concurrency, free, there_is, remedy, with_joins=with_joins)


def too_small_a_pool(pool: str, concurrency: int, *, with_joins: bool = False) -> str | None:
    """The same for psycopg's pool, where threads share one."""
    options = psycopg_pool()
    if pool == "prefork" or not options:
        return None
    most = int(options.get("max_size") or _kept_open(options))
    remedy = f'or raise "max_size" in DATABASES["{alias()}"]["OPTIONS"]["pool"]'
    return _lack(pool, concurrency, most, f"psycopg's pool gives {most}", remedy, with_joins=with_joins)


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


def _lack(pool: str, concurrency: int, free: int, there_is: str, remedy: str, *, with_joins: bool) -> str | None:
    need, most = needed(pool, concurrency), needed(pool, concurrency, get_settings().BRANCH_THREADS)
    worker = f"({pool}, concurrency {concurrency})"
    if need > free:
        return (
            f"this worker may need {need} database connections {worker}, with joins up to {most}, and {there_is}; "
            f"lower --concurrency, {remedy}"
        )
    if with_joins and most > free:
        return (
            f"where actors use joins, this worker may need up to {most} database connections {worker}, and {there_is} "
            f'(without joins {need}, which is enough); lower RIVET["BRANCH_THREADS"] or --concurrency, {remedy}'
        )
    return None


def _kept_open(options: Mapping[str, Any]) -> int:
    return int(options.get("min_size", PSYCOPG_POOL_MIN)) if options else 0
