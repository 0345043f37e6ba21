"""Transactions of the engine: begun late, and each commit passes one gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_rivet.store.database import alias, connection


class CommitObserver(Protocol):
    """Told of every commit that a drive makes; tests count them, and crash at them."""

    def before(self) -> None:
        """Raise to keep the commit from happening."""

    def after(self) -> None:
        """The commit has happened."""


observers: list[CommitObserver] = []


class Begun:
    """One open engine transaction."""

    def __init__(self, connection: BaseDatabaseWrapper, idle_limit: float = 0.0) -> None:
        self.statements = 0
        """How many were sent; none: the body asked the database nothing."""
        self.wrote_nothing = False
        """Set where the commit will change nothing: then nobody is told of it."""
        self._connection = connection
        self._hooks_before = len(connection.run_on_commit)
        self._owes_begin = False
        # In a transaction of somebody else's the limit would hold for that.
        self._may_be_limited = connection.vendor == "postgresql" and not connection.in_atomic_block
        self._owes_limit = idle_limit if self._may_be_limited else 0.0
        self._is_limited = False
        self._is_body_over = False

    @property
    def changed_nothing(self) -> bool:
        """No statement was sent, and nothing waits for the commit."""
        return not self.statements and len(self._connection.run_on_commit) == self._hooks_before

    def body_has_ended(self, idle_limit: float) -> None:
        """Only the engine's own statements follow: a worker may freeze between them, too, and holds locks then."""
        self._is_body_over = True
        if self._may_be_limited and not self._is_limited:
            self._owes_limit = idle_limit

    def end(self) -> None:
        """The transaction is about to be committed; what comes after it begins as usual."""
        self._owes_begin = False
        self._owes_limit = 0.0

    def make_hooks_robust(self) -> None:
        hooks = self._connection.run_on_commit
        hooks[self._hooks_before :] = [(*entry[:2], True) for entry in hooks[self._hooks_before :]]  # type: ignore[misc]  # the stubs forget that hooks can be robust

    def put_off(self) -> None:
        self._owes_begin = True

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements += 1
        if self._owes_limit:
            limit, self._owes_limit, self._is_limited = self._owes_limit, 0.0, True
            statement = f"SET LOCAL idle_in_transaction_session_timeout = {int(limit * 1000)}"
            if (
                self._is_body_over
                and not many
                and not self._connection.settings_dict["OPTIONS"].get("server_side_binding")
            ):
                # Both in one round trip. A body may send what bears no company, such as a server-side cursor.
                result = execute(f"{statement}; {sql}", params, many, context)
                context["cursor"].nextset()
                return result
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
            self.statements -= 1
        if self._owes_begin:
            self._owes_begin = False
            # IMMEDIATE whatever the project's transaction_mode: a read that later writes could not wait for a lock.
            try:
                self._connection.cursor().execute("BEGIN IMMEDIATE")
            except BaseException:
                # Else the next statement would run, and stay, outside of any transaction.
                self._owes_begin = True
                raise
            self.statements -= 1
        return execute(sql, params, many, context)


@contextmanager
def engine_transaction(*, observed: bool = True, idle_limit: float = 0.0) -> Iterator[Begun]:
    """A transaction that holds no lock before its first statement. Nested in another one it is a savepoint.

    PostgreSQL's driver sends BEGIN with the first statement anyway; for SQLite it is put off here, since there
    BEGIN IMMEDIATE locks out every other writer. ``observed``: this is a commit of a drive. Hooks that its body
    registered with ``on_commit`` become robust: they run after the step is on record, so their failure must not
    look like the step's.

    ``idle_limit``: after so many seconds without a statement PostgreSQL ends the session, and with it the locks of a
    worker that was frozen in the middle of a body or a commit. It is set with the first statement; 0: not.
    """
    conn = connection()
    begun = Begun(conn, idle_limit)
    with ExitStack() as stack:
        stack.enter_context(conn.execute_wrapper(begun))
        with _putting_off(conn, begun):
            stack.enter_context(transaction.atomic(alias()))
        begun.statements = 0  # a savepoint of our own is none of the body's
        depth = len(conn.savepoint_ids)
        try:
            yield begun
        except BaseException:
            # A time-out may hit a body just before it leaves an atomic() of its own.
            del conn.savepoint_ids[depth:]
            raise
        begun.end()
        if observed:
            begun.make_hooks_robust()
            for observer in [] if begun.wrote_nothing else observers:
                observer.before()
    for observer in observers if observed and not begun.wrote_nothing else ():
        observer.after()


@contextmanager
def engine_statement() -> Iterator[Begun]:
    """For a commit that is a single statement: it needs no BEGIN, unless somebody wants to stop it."""
    if observers:
        with engine_transaction() as begun:
            yield begun
    else:
        yield Begun(connection())


# Below: how it is done ---------------------------------------------------------------------------


@contextmanager
def _putting_off(conn: BaseDatabaseWrapper, begun: Begun) -> Iterator[None]:
    """Django has no hook for this: the method that sends BEGIN is shadowed while the transaction is entered."""
    if conn.vendor != "sqlite" or conn.in_atomic_block:
        yield
        return
    conn._start_transaction_under_autocommit = begun.put_off  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del conn._start_transaction_under_autocommit  # type: ignore[attr-defined]
