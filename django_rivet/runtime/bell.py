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
from dataclasses import asdict
from functools import partial

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
    transaction.on_commit(partial(_ringer.take, actor_id, type_name, hint), using=alias(), robust=True)


def ring(actor_id: uuid.UUID, type_name: str, hint: Hint = ANYHOW) -> bool:
    """Send one hint here and now; False where there is no broker to take it. Never raises."""
    app: Celery = current_app._get_current_object()  # type: ignore[attr-defined]  # a proxy, of which the stubs know nothing
    return has_broker(app) and send(app, actor_id, type_name, hint)


def drain(timeout: float) -> bool:
    """Wait until no hint waits any more; False where ``timeout`` seconds were not enough."""
    return _ringer.idle.wait(timeout)


def send(app: Celery, actor_id: uuid.UUID, type_name: str, hint: Hint = ANYHOW) -> bool:
    try:
        app.send_task(
            TASK,
            args=[str(actor_id)],
            kwargs={name: value for name, value in asdict(hint).items() if value is not None},
            queue=queue_of(type_name) or app.conf.task_default_queue,
            ignore_result=True,
            retry=False,
            expires=FORGOTTEN_SECONDS,
        )
    except Exception as error:
        # What is due stands in the database: a broker that is down costs latency and nothing else.
        logger.warning("no hint for actor %s was sent (%s); the sweeper will find it", actor_id, error)
        return False
    return True


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

FORGOTTEN_SECONDS = 3600
"""How long a hint may lie in a queue that nobody reads. By the clock of the reader: if that is some minutes ahead, it
must not throw away every hint of the others.
"""

LULL_SECONDS = 0.02
"""Hints for one actor in the meantime become one. The first after a silence goes out at once."""

MAX_WAITING = 1000
"""Hints that wait for the broker, one per actor. What comes on top is left to the sweeper."""

LAST_SECONDS = 2.0
"""How long a process that ends waits for its last hints to go out."""


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
            ring(*self._next())

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


_ringer = _Ringer()
# A thread does not survive a fork, and its lock may have been taken at that moment.
os.register_at_fork(after_in_child=_ringer.__init__)  # type: ignore[misc]
atexit.register(drain, LAST_SECONDS)
