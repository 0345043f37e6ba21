"""The sweeper: turns what the database says is due into hints. It runs inside a worker."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from celery import Celery, bootsteps
from celery.signals import worker_init, worker_process_init, worker_shutting_down
from django.db import connections

from django_rivet.conf import get_settings
from django_rivet.runtime import connecting, limits, shutdown
from django_rivet.runtime.bell import has_broker, queue_of, send, waiting_hints
from django_rivet.runtime.forking import undisturbed
from django_rivet.runtime.run_limits import wake_overdue_runs
from django_rivet.store import runs
from django_rivet.store.database import alias
from django_rivet.store.events import FORGOTTEN_AT_ONCE, forget_events

logger = logging.getLogger(__name__)

BATCH = 1000
"""The most hints of one sweep; the rest comes with the next."""

PATIENCE_SECONDS = 3.0
"""How long a hint may lie in the broker before it is taken for lost and sent again, where the queue is that short.

In a long queue it may be waiting still. Then a hint is repeated only after as long as all those before it have waited:
the fewer workers there are, the less a queue must grow, and by itself Redis forgets no message.
"""

TIDY_SECONDS = 60.0

DEPLOYED_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Hint:
    """The last hint for an actor that is due, and the actor's epoch when it was given."""

    at: float
    epoch: int
    first_at: float
    """When the first was given that nobody has heard yet."""

    def was_heard(self, epoch: int) -> bool:
        """Somebody has claimed the actor since: that it is due again is news."""
        return self.epoch != epoch

    def is_old(self, now: float) -> bool:
        return now - self.at >= PATIENCE_SECONDS

    def is_older_than_all_before(self, now: float) -> bool:
        return now - self.at >= self.at - self.first_at + PATIENCE_SECONDS


def nothing_waits(queue: str | None) -> int | None:
    return 0


class Sweeper:
    """Looks for what is due and hands it to ``hint``: the actor, its type and its epoch. In a thread of its own."""

    def __init__(
        self,
        hint: Callable[[uuid.UUID, str, int], object],
        pause: float,
        waiting: Callable[[str | None], int | None] = nothing_waits,
        first: Callable[[], None] = lambda: None,
    ) -> None:
        """``hint`` answers False where the broker takes none. ``waiting``: how many messages lie in a queue; None
        where nobody can say. ``first`` is called once, in the sweeper's thread, before it looks; should it fail, it
        is called again.
        """
        self._hint = hint
        self._first = first
        self._has_begun = False
        self._pause = pause
        self._waiting = waiting
        self._hinted: dict[uuid.UUID, Hint] = {}
        self._tidied = 0.0
        self._minds_deploys_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rivet-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def sweep(self) -> int:
        """One look; returns how many hints were given. It ends at the first that the broker does not take."""
        now = time.monotonic()
        found = list(runs.due_actors(BATCH))
        before = self._hinted
        if len(found) < BATCH:
            # What is not due any more was heard; should it become due again, that is news.
            self._hinted = {due.actor_id: before[due.actor_id] for due in found if due.actor_id in before}
        for due in found:
            if due.actor_id in before and before[due.actor_id].was_heard(due.epoch):
                del self._hinted[due.actor_id]
        is_lost = self._lost(now, [queue_of(due.type_name) for due in found if due.actor_id in self._hinted])
        hints = 0
        for due in found:
            unheard = self._hinted.get(due.actor_id)
            if unheard is not None and not is_lost(unheard, queue_of(due.type_name)):
                continue
            if self._stop.is_set() or self._hint(due.actor_id, due.type_name, due.epoch) is False:
                break
            hints += 1
            self._hinted[due.actor_id] = Hint(now, due.epoch, now if unheard is None else unheard.first_at)
        return hints

    def tidy(self) -> None:
        """Once a minute: forget events that are older than ``EVENT_RETENTION``."""
        now = time.monotonic()
        if now - self._tidied >= TIDY_SECONDS and forget_events(get_settings().EVENT_RETENTION) < FORGOTTEN_AT_ONCE:
            self._tidied = now

    def mind_deploys(self) -> None:
        """At its start and every five minutes (workers of before may still be there): limits that have changed."""
        now = time.monotonic()
        if now >= self._minds_deploys_at and wake_overdue_runs():
            self._minds_deploys_at = now + DEPLOYED_SECONDS

    # Below: how it is done -------------------------------------------------------------------

    def _lost(self, now: float, unheard: Sequence[str | None]) -> Callable[[Hint, str | None], bool]:
        """Whether a hint is to be taken for lost; ``unheard``: the queues of all that nobody has heard yet."""
        expected = Counter(unheard)
        waiting = cache(self._waiting)

        def is_lost(hint: Hint, queue: str | None) -> bool:
            if not hint.is_old(now):
                return False
            there = waiting(queue)
            # A queue that is shorter than what has been put into it has lost some, or a worker is at it.
            return there is not None and (there < expected[queue] or hint.is_older_than_all_before(now))

        return is_lost

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            with undisturbed():
                self._look()
        with undisturbed():
            connections[alias()].close()

    def _look(self) -> None:
        try:
            self._begin()
            self.sweep()
            self.tidy()
            self.mind_deploys()
        except Exception:
            # A sweeper that dies would leave timers to nobody: the next sweep may find the database again.
            logger.exception("a sweep failed; the next one comes in %g s", self._pause)
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
            partial(waiting_hints, app),
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
    worker_process_init.connect(_on_process_init, weak=False, dispatch_uid="django_rivet.limits")
    worker_shutting_down.connect(_on_worker_shutting_down, weak=False, dispatch_uid="django_rivet.shutdown")


def _on_worker_shutting_down(**kwargs: Any) -> None:
    shutdown.request()


_worker_pid: int | None = None
"""The process of the worker itself. A process of its pool knows it where it was forked."""


def _on_process_init(**kwargs: Any) -> None:
    if os.getpid() == _worker_pid:
        return  # solo: the worker is its own pool
    if _worker_pid is not None and os.getppid() != _worker_pid:
        os._exit(1)  # the worker died before Celery had asked the kernel to end this process along with it
    limits.process_is_replaceable()


def _on_worker_init(sender: Any, **kwargs: Any) -> None:
    global _worker_pid
    _worker_pid = os.getpid()
    shutdown.withdraw()
    if get_settings().SWEEPER:
        add_to(sender.app)
