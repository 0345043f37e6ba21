"""A database that fails the engine, at one statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, connection

FENCE = re.compile(r"\s*UPDATE django_rivet_workflowrun SET\s+lease_until")
"""The last statement of every record."""
ROLLBACK_BEGINS = re.compile(r"\s*UPDATE django_rivet_workflowrun SET error")
"""Why the workflow rolls back."""

LOST = "the server closed the connection"
"""Nothing can be done in this drive any more."""
LOCKED = "database is locked"
"""A conflict: another try may get past it."""


@contextmanager
def failing(statement: re.Pattern[str], message: str, when: Callable[[], object] = lambda: True) -> Iterator[None]:
    """The first such statement for which ``when()`` is true is answered with an error."""
    left = [OperationalError(message)]

    def fail(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if left and statement.match(sql) and when():
            raise left.pop()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail):
        yield
    assert not left, "the statement was never sent"
