"""The sweeper: turns what the database says is due into hints. It runs inside a worker."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from celery import Celery, bootsteps
from celery.signals import worker_init, worker_shutting_down
from django.db import connections

from django_rivet.conf import get_settings
from django_rivet.runtime import connecting, shutdown
from django_rivet.runtime.bell import has_broker, send
from django_rivet.store import runs
from django_rivet.store.database import alias
from django_rivet.store.events import FORGOTTEN_AT_ONCE, forget_events

logger = logging.getLogger(__name__)

BATCH = 1000
"""The most hints of one sweep; the rest comes with the next."""

PATIENCE_SECONDS = 3.0
"""How long a hint may lie in the broker before it is taken for lost and sent again."""

TIDY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Hint:
    """One hint, and the actor's epoch when it was given."""

    at: float
    epoch: int

    def was_heard(self, now: Hint) -> bool:
        """Somebody has claimed the actor since: that it is due again is news."""
        return self.epoch != now.epoch

    def is_lost(self, now: Hint) -> bool:
        return now.at - self.at >= PATIENCE_SECONDS


class Sweeper:
    """Looks for what is due and hands it to ``hint``: the actor, its type and its epoch. In a thread of its own."""

    def __init__(
        self,
        hint: Callable[[uuid.UUID, str, int], object],
        pause: float,
        first: Callable[[], None] = lambda: None,
    ) -> None:
        """``first`` is called once, in the sweeper's thread, before it looks; should it fail, it is called again."""
        self._hint = hint
        self._first = first
        self._has_begun = False
        self._pause = pause
        self._hinted: dict[uuid.UUID, Hint] = {}
        self._tidied = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rivet-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def sweep(self) -> int:
        """One look; returns how many hints were given."""
        now = time.monotonic()
        known = {}
        hints = 0
        for due in runs.due_actors(BATCH):
            hint = Hint(now, due.epoch)
            before = self._hinted.get(due.actor_id)
            if before is None or before.was_heard(hint) or before.is_lost(hint):
                self._hint(due.actor_id, due.type_name, due.epoch)
                hints += 1
            else:
                hint = before
            known[due.actor_id] = hint
        # What is not due any more was heard; should it become due again, that is news.
        self._hinted = known
        return hints

    def tidy(self) -> None:
        """Once a minute: forget events that are older than ``EVENT_RETENTION``."""
        now = time.monotonic()
        if now - self._tidied >= TIDY_SECONDS and forget_events(get_settings().EVENT_RETENTION) < FORGOTTEN_AT_ONCE:
            self._tidied = now

    # Below: how it is done -------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._begin()
                self.sweep()
                self.tidy()
            except Exception:
                # A sweeper that dies would leave timers to nobody: the next sweep may find the database again.
                logger.exception("a sweep failed; the next one comes in %g s", self._pause)
                connections[alias()].close()
        connections[alias()].close()

    def _begin(self) -> None:
        if not self._has_begun:
            self._first()
            self._has_begun = True


class SweeperStep(bootsteps.StartStopStep):
    """Starts and stops the sweeper with the worker that it runs in."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        self.sweeper: Sweeper | None = None

    def start(self, parent: Any) -> None:
        app: Celery = parent.app
        pause = get_settings().SWEEP_SECONDS or (1.0 if has_broker(app) else 0.1)
        self.sweeper = Sweeper(
            lambda actor_id, type_name, epoch: send(app, actor_id, type_name, runs.Hint(epoch)),
            pause,
            # Not in the main thread, where a worker without its database would hang, nor before the pool has forked.
            first=partial(connecting.warn, _pool_of(parent), parent.concurrency),
        )
        self.sweeper.start()

    def stop(self, parent: Any) -> None:
        if self.sweeper is not None:
            self.sweeper.stop()

    def terminate(self, parent: Any) -> None:
        self.stop(parent)


def _pool_of(worker: Any) -> str:
    """As ``rivet_worker`` calls it."""
    name: str = worker.pool_cls.__module__.rpartition(".")[2]
    return {"thread": "threads"}.get(name, name)


def add_to(app: Celery) -> None:
    app.steps["worker"].add(SweeperStep)


def install() -> None:
    """Any Celery worker hands its actors over when it is told to stop; ``RIVET["SWEEPER"]`` puts a sweeper into it."""
    worker_init.connect(_on_worker_init, weak=False, dispatch_uid="django_rivet.sweeper")
    worker_shutting_down.connect(_on_worker_shutting_down, weak=False, dispatch_uid="django_rivet.shutdown")


def _on_worker_shutting_down(**kwargs: Any) -> None:
    shutdown.request()


def _on_worker_init(sender: Any, **kwargs: Any) -> None:
    shutdown.withdraw()
    if get_settings().SWEEPER:
        add_to(sender.app)
