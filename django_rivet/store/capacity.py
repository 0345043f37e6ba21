"""How many connections the database server allows, and how many it has."""

from __future__ import annotations

from dataclasses import dataclass

from django_rivet.store.database import is_postgresql, row

# PostgreSQL 16 and later keep some more back, for roles that are told so.
CAPACITY = """
    SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int,
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """All clients of the server together, not only this project's."""

    limit: int
    """``max_connections`` without what is kept for superusers."""
    used: int


def capacity() -> Capacity | None:
    """One statement; None on SQLite, which has no server."""
    if not is_postgresql():
        return None
    found = row(CAPACITY, ())
    assert found is not None
    limit, used = found
    return Capacity(int(limit), int(used))
