"""How long it takes from the death of a worker to the next commit of an actor that it held."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from django_rivet.models import WorkflowRun

LOOK_SECONDS = 0.05


@dataclass
class Orphan:
    """An actor whose worker died."""

    actor_id: uuid.UUID
    epoch: int
    at: float
    claimed: datetime | None = None
    """Its last change when it was first seen in other hands."""


class Recoveries:
    """Looks in a thread of its own."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self.waiting: list[Orphan] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-recoveries", daemon=True)
        self._thread.start()

    def of_dead(self, pids: Sequence[int], at: float) -> None:
        marks = {f":{pid}:" for pid in pids}
        held = WorkflowRun.objects.exclude(holder=None).values_list("pk", "holder", "epoch")
        orphans = [Orphan(pk, epoch, at) for pk, holder, epoch in held if any(mark in str(holder) for mark in marks)]
        with self._lock:
            self.waiting += orphans

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    # Below: how it is done -------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with self._lock:
                waiting = list(self.waiting)
            runs = {run.pk: run for run in WorkflowRun.objects.filter(pk__in=[o.actor_id for o in waiting])}
            for orphan in waiting:
                if self._is_over(orphan, runs[orphan.actor_id]):
                    with self._lock:
                        self.waiting.remove(orphan)
                    self.took.append(time.monotonic() - orphan.at)
        connection.close()

    def _is_over(self, orphan: Orphan, run: WorkflowRun) -> bool:
        if run.epoch == orphan.epoch:
            return False
        if run.holder is None:
            return True
        if orphan.claimed is None:
            orphan.claimed = run.updated_at
        return run.updated_at != orphan.claimed
