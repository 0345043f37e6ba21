"""Ring Celery: a hint that an actor is due. Losing it is harmless, the sweeper finds what is due.

Who creates an actor or sends it a message never waits for the broker: hints go out from a thread of their own, so that
a broker that hangs holds up nobody.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from celery import Celery, current_app
from django.db import transaction

from django_rivet.actors.registry import registry
from django_rivet.conf import get_settings
from django_rivet.store.database import alias
from django_rivet.store.runs import Hint

TASK = "django_rivet.drive"

ANYHOW = Hint()
"""Something new is to be done: a hint that is not void before it was done."""

logger = logging.getLogger(__name__)


def ring_on_commit(actor_id: uuid.UUID, type_name: str, hint: Hint = ANYHOW) -> None:
    """Ring once the surrounding transaction has committed; at once where there is none. Never raises, never waits.

    Many hints for one actor within a short time become one.
    """
    transaction.on_commit(partial(ring, actor_id, type_name, hint), using=alias(), robust=True)


def ring(actor_id: uuid.UUID, type_name: str, hint: Hint = ANYHOW) -> None:
    """Ring soon. Never raises, never waits; without a broker that others hear it does nothing."""
    _ringer.take(actor_id, type_name, hint)


def ring_now(actor_id: uuid.UUID, type_name: str, hint: Hint = ANYHOW) -> bool:
    """Ring here and now; False where the broker does not take the hint within seconds. Never raises.

    True without a broker that others hear: the sweeper of this very process finds what is due.
    """
    app: Celery = current_app._get_current_object()  # type: ignore[attr-defined]  # a proxy, of which the stubs know nothing
    return not has_broker(app) or send(app, actor_id, type_name, hint)


def drain(timeout: float) -> bool:
    """Wait until no hint waits any more; False where ``timeout`` seconds were not enough."""
    return _ringer.idle.wait(timeout)


def send(app: Celery, actor_id: uuid.UUID, type_name: str, hint: Hint = ANYHOW) -> bool:
    """Send one hint here and now; False where the broker does not take it within seconds. Never raises.

    A hint has no date: however old it is when a worker comes to it, it costs a look into the database and no more.
    With an expiry, hints in a queue that takes longer than that to work off would all be thrown away.
    """
    try:
        with _line.connected(app) as connection:
            app.send_task(
                TASK,
                args=[str(actor_id)],
                kwargs={name: value for name, value in asdict(hint).items() if value is not None},
                queue=_queue(app, type_name),
                ignore_result=True,
                retry=False,
                connection=connection,
            )
    except Exception as error:
        # What is due stands in the database: a broker that is down costs latency and nothing else.
        logger.warning("no hint for actor %s was sent (%s); the sweeper will find it", actor_id, error)
        return False
    return True


def waiting_hints(app: Celery, queue: str | None) -> int | None:
    """How many messages wait in that queue (None: the default one), whoever sent them; None where nobody can say.

    Never raises, and takes seconds at most.
    """
    try:
        with _line.connected(app) as connection:
            try:
                name = queue or app.conf.task_default_queue
                return int(connection.default_channel.queue_declare(name, passive=True).message_count)
            except connection.channel_errors:
                _line.drop()  # some brokers close the channel over it
                return 0
    except Exception as error:
        logger.warning("the broker does not say what waits in its queues (%s)", error)
        return None


def has_broker(app: Celery) -> bool:
    """Whether another process can hear us: ``memory://`` is heard in this process only, and would fill it."""
    url = app.conf.broker_write_url or app.conf.broker_url
    return bool(url) and not str(url).startswith("memory:")


def queue_of(type_name: str) -> str | None:
    """The Celery queue of an actor type: its ``Meta.celery_queue``, else ``RIVET["CELERY_QUEUE"]``."""
    try:
        own = registry.get(type_name).definition.meta.celery_queue
    except LookupError:
        own = None
    return own or get_settings().CELERY_QUEUE


# Below: how it is done ---------------------------------------------------------------------------

LULL_SECONDS = 0.02
"""Hints for one actor in the meantime become one. The first after a silence goes out at once."""

MAX_WAITING = 1000
"""Hints that wait for the broker, one per actor. What comes on top is left to the sweeper."""

LAST_SECONDS = 2.0
"""How long a process that ends waits for its last hints to go out."""


SECONDS = 2
"""How long the broker may take for one thing: to be connected to, to answer, to take what is written."""

TIME_LIMITS: dict[str, dict[str, Any]] = {
    "redis": {"socket_connect_timeout": SECONDS, "socket_timeout": SECONDS},
    "amqp": {"read_timeout": SECONDS, "write_timeout": SECONDS},
}
"""Celery's own defaults wait for ever. What stands in ``CELERY_BROKER_TRANSPORT_OPTIONS`` goes before these."""

TRIES = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}


class _Line:
    """The process's own connection to the broker, for one thread at a time. Those that Celery keeps have no limits."""

    def __init__(self) -> None:
        self._mine = threading.RLock()
        self._connection: Any = None
        self._app: Celery | None = None

    @contextmanager
    def connected(self, app: Celery) -> Iterator[Any]:
        """A connection that is opened by its first use, and given up by an error."""
        with self._mine:
            if self._connection is None or self._app is not app:
                self.drop()
                self._connection, self._app = _limited(app), app
            try:
                yield self._connection
            except BaseException:
                self.drop()
                raise

    def drop(self) -> None:
        """Without a word to the broker, which may not be listening."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.collect()


def _limited(app: Celery) -> Any:
    connection = app.connection_for_write(connect_timeout=SECONDS)
    limits = TIME_LIMITS.get(connection.get_transport_cls().driver_type, {})
    connection.transport_options = {**TRIES, **limits, **app.conf.broker_transport_options}
    return connection


def _queue(app: Celery, type_name: str) -> str:
    return queue_of(type_name) or app.conf.task_default_queue


class _Ringer:
    """One thread per process, which is started by the first hint."""

    def __init__(self) -> None:
        self.idle = threading.Event()
        self.idle.set()
        self._waiting: OrderedDict[uuid.UUID, tuple[str, Hint]] = OrderedDict()
        self._rung: OrderedDict[uuid.UUID, float] = OrderedDict()
        """When, by the monotonic clock, each actor was rung for within the last lull; the oldest first."""
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def take(self, actor_id: uuid.UUID, type_name: str, hint: Hint) -> None:
        if not has_broker(current_app._get_current_object()):  # type: ignore[attr-defined]  # a proxy, as above
            return
        with self._news:
            if actor_id not in self._waiting and len(self._waiting) >= MAX_WAITING:
                return
            _, waiting = self._waiting.get(actor_id, (type_name, hint))
            # A message alone is no reason to drive a new actor, and its creation is.
            self._waiting[actor_id] = type_name, ANYHOW if waiting == ANYHOW else hint
            self.idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rivet-bell", daemon=True)
                self._thread.start()
            self._news.notify()

    def _run(self) -> None:
        while True:
            waiting = self._next()
            send(current_app._get_current_object(), *waiting)  # type: ignore[attr-defined]  # a proxy, as above

    def _next(self) -> tuple[uuid.UUID, str, Hint]:
        """The longest waiting hint of those that may go out; waits for one."""
        with self._news:
            while True:
                if not self._waiting:
                    self.idle.set()
                self._news.wait_for(lambda: self._waiting)
                now = time.monotonic()
                while self._rung and now - next(iter(self._rung.values())) >= LULL_SECONDS:
                    self._rung.popitem(last=False)
                actor_id = next((each for each in self._waiting if each not in self._rung), None)
                if actor_id is not None:
                    self._rung[actor_id] = now
                    return actor_id, *self._waiting.pop(actor_id)
                self._news.wait(LULL_SECONDS - (now - next(iter(self._rung.values()))))


def _begin_anew() -> None:
    """A thread does not survive a fork, a lock may have been taken at that moment, and the line is the parent's."""
    global _ringer, _line
    _of_parents.append(_line)
    _ringer, _line = _Ringer(), _Line()


_ringer = _Ringer()
_line = _Line()
_of_parents: list[_Line] = []
"""Kept, because a connection that is collected as garbage hangs up, on the parent too."""
os.register_at_fork(after_in_child=_begin_anew)
atexit.register(drain, LAST_SECONDS)
