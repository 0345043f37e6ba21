"""The statements that reach the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


class Statements:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")):
            self.texts.append(" ".join(sql.split()))
        return execute(sql, params, many, context)

    @property
    def count(self) -> int:
        return len(self.texts)

    def reads(self, table: str) -> int:
        return sum(text.startswith("SELECT") and f" {table} " in text.replace('"', "") for text in self.texts)

    def writes(self, table: str) -> int:
        return sum(
            text.startswith(("INSERT", "UPDATE", "DELETE")) and f" {table} " in text.replace('"', "")
            for text in self.texts
        )


@contextmanager
def recorded() -> Iterator[Statements]:
    statements = Statements()
    with connection.execute_wrapper(statements):
        yield statements
