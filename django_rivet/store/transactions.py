"""Transactions of the engine: begun late, and each commit passes one gate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from django_rivet.store.database import alias, connection
from django_rivet.store.outages import forget_lost_connection


class CommitObserver(Protocol):
    """Told of every commit that a drive makes; tests count them, and crash at them."""

    def before(self) -> None:
        """Raise to keep the commit from happening."""

    def after(self) -> None:
        """The commit has happened."""


observers: list[CommitObserver] = []

BEGIN = "BEGIN IMMEDIATE"
"""SQLite's, whatever the project's transaction_mode: a read that later writes could not wait for a lock."""

ENDS_TRANSACTION = re.compile(
    r"\s*(BEGIN|START\s+TRANSACTION|COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!.*\bTO\b))\b",
    re.IGNORECASE | re.DOTALL,
)


class Begun:
    """One open engine transaction."""

    def __init__(self, connection: BaseDatabaseWrapper, idle_limit: float = 0.0) -> None:
        self.statements = 0
        """How many were sent; none: the body asked the database nothing."""
        self.wrote_nothing = False
        """Set where the commit will change nothing: then nobody is told of it."""
        self.is_ending = False
        """The commit has begun: where it fails with the connection, nobody knows whether it happened."""
        self._connection = connection
        self._hooks_before = len(connection.run_on_commit)
        self._depth = 0
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

    def begin(self) -> None:
        """The transaction is open: what comes now is the body's."""
        self.statements = 0  # a savepoint of our own is none of the body's
        self._depth = len(self._connection.savepoint_ids)

    def body_has_ended(self, idle_limit: float = 0.0) -> None:
        """``TransactionManagementError`` where the body has ended, or left behind, a transaction that is not its own.

        Only the engine's own statements follow: a worker may freeze between them, too, and holds locks then.
        """
        self._is_body_over = True
        if self._may_be_limited and not self._is_limited:
            self._owes_limit = idle_limit
        self._refuse_other_transaction()

    def restore(self) -> None:
        """Forget blocks that the body has entered and not left; the transaction is undone with all of them."""
        del self._connection.savepoint_ids[self._depth :]
        del self._connection.atomic_blocks[self._depth + 1 :]

    def end(self) -> None:
        """The transaction is about to be committed; what comes after it begins as usual."""
        self._refuse_other_transaction()
        self.is_ending = True
        self._owes_begin = False
        self._owes_limit = 0.0

    def make_hooks_robust(self) -> None:
        hooks = self._connection.run_on_commit
        hooks[self._hooks_before :] = [(*entry[:2], True) for entry in hooks[self._hooks_before :]]  # type: ignore[misc]  # the stubs forget that hooks can be robust

    def put_off(self) -> None:
        self._owes_begin = True

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        # Hooks that run after the commit begin transactions of their own. psycopg's composed statements are let
        # through: what they end is found out afterwards.
        is_free = self.is_ending or sql is BEGIN
        ends = None if is_free else ENDS_TRANSACTION.match(str(sql))
        if ends:
            raise TransactionManagementError(
                f"{ends[1].upper()} was refused: the transaction is the engine's, and ends with the record of the "
                "step, action or hook; put what has to be undone by itself into a transaction.atomic() block"
            )
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
            try:
                self._connection.cursor().execute(BEGIN)
            except BaseException:
                # Else the next statement would run, and stay, outside of any transaction.
                self._owes_begin = True
                raise
            self.statements -= 1
        return execute(sql, params, many, context)

    def _refuse_other_transaction(self) -> None:
        conn = self._connection
        if conn.closed_in_transaction:
            return  # whatever is asked next says so
        if len(conn.savepoint_ids) != self._depth or not conn.in_atomic_block:
            raise TransactionManagementError("a transaction.atomic() block was entered and not left again")
        if self.statements and not self._owes_begin and not _is_in_transaction(conn):
            raise TransactionManagementError(
                "the transaction was ended behind the engine's back, and what was written by then is kept; "
                "only the engine may commit, or roll back, the transaction of a step"
            )


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
    forget_lost_connection()
    begun = Begun(conn, idle_limit)
    with ExitStack() as stack:
        stack.enter_context(conn.execute_wrapper(begun))
        with _putting_off(conn, begun):
            stack.enter_context(transaction.atomic(alias()))
        begun.begin()
        try:
            yield begun
            begun.end()
        except BaseException:
            # A time-out may hit a body just before it leaves an atomic() of its own.
            begun.restore()
            raise
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


@contextmanager
def no_transaction_left_open() -> Iterator[None]:
    """Around a body whose statements commit by themselves: what it has left open is undone.

    Else everything that the engine writes from now on would wait for a commit that nobody makes.
    ``TransactionManagementError`` where the body has not raised by itself.
    """
    conn = connection()
    depth = len(conn.atomic_blocks)
    try:
        yield
    finally:
        is_open = len(conn.atomic_blocks) > depth or (depth == 0 and _is_left_open(conn))
        if is_open:
            del conn.atomic_blocks[depth:]
            del conn.savepoint_ids[max(0, depth - 1) :]
            if depth == 0:
                conn.in_atomic_block = False
                conn.close()
    if is_open:
        raise TransactionManagementError(
            "the body has left a transaction open, which is rolled back now; commit it, or use transaction.atomic()"
        )


# Below: how it is done ---------------------------------------------------------------------------


def _is_in_transaction(conn: BaseDatabaseWrapper) -> bool:
    """What the driver knows of it, whatever Django thinks."""
    if conn.connection is None:
        return False
    if conn.vendor == "sqlite":
        return bool(conn.connection.in_transaction)
    if conn.vendor != "postgresql":
        return True
    from psycopg.pq import TransactionStatus

    return bool(conn.connection.info.transaction_status != TransactionStatus.IDLE)


def _is_left_open(conn: BaseDatabaseWrapper) -> bool:
    if conn.connection is None or conn.vendor not in ("sqlite", "postgresql"):
        return False
    return not conn.autocommit or (_is_in_transaction(conn) and not _is_closed(conn))


def _is_closed(conn: BaseDatabaseWrapper) -> bool:
    return conn.vendor == "postgresql" and bool(conn.connection.closed)


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
