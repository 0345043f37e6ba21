"""Renews the leases of this process while long bodies run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from django_rivet.runtime import shutdown
from django_rivet.store.database import alias
from django_rivet.store.journal import Lease
from django_rivet.store.runs import renew

logger = logging.getLogger(__name__)


LOOK_SECONDS = 0.1
"""How soon a running drive learns that its worker is to stop."""


class Heartbeat:
    """One thread per process, with a database connection of its own that it opens only when a drive lasts long."""

    def __init__(self) -> None:
        self._leases: dict[int, tuple[Lease, float]] = {}
        self._begun = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def of(self, lease: Lease) -> Iterator[None]:
        """Keep this lease alive while the block runs."""
        with self._begun:
            self._leases[id(lease)] = lease, time.monotonic()
            if self._thread is None or not self._thread.is_alive():
                # Started here and not at import: a thread does not survive the fork of a prefork worker.
                self._thread = threading.Thread(target=self._beat, name="rivet-heartbeat", daemon=True)
                self._thread.start()
            self._begun.notify()
        try:
            yield
        finally:
            with self._begun:
                del self._leases[id(lease)]

    # Below: how it is done -------------------------------------------------------------------

    def _beat(self) -> None:
        while True:
            with self._begun:
                if not self._leases:
                    # Under the lock: the last drive may have ended since the last look, during a renewal.
                    connections[alias()].close()
                self._begun.wait_for(lambda: self._leases)
                pause = min(lease.seconds for lease, _ in self._leases.values()) / 3
            leaving = self._sleep(pause)
            with self._begun:
                leases = [lease for lease, begun in self._leases.values() if leaving or _is_old(begun, pause)]
            for lease in leases:
                self._renew(lease, leaving=leaving)
            if not leases:
                connections[alias()].close()

    def _sleep(self, seconds: float) -> bool:
        """Returns early, and then True, where the worker is told to stop: it may be killed soon after."""
        ends = time.monotonic() + seconds
        was_requested = shutdown.is_requested()
        while (left := ends - time.monotonic()) > 0:
            if shutdown.is_requested() and not was_requested:
                break
            time.sleep(min(left, LOOK_SECONDS))
        return shutdown.is_requested()

    def _renew(self, lease: Lease, *, leaving: bool) -> None:
        # Twice: the session may have been ended since the last beat, and another one can be had at once.
        for _ in range(2):
            try:
                renew(lease, leaving=leaving)
                return
            except Exception as error:
                # The next beat comes before the lease is over; the fence decides, not we.
                logger.warning("the lease of actor %s was not renewed: %s", lease.actor_id, error)
                connections[alias()].close()


def _is_old(begun: float, pause: float) -> bool:
    return time.monotonic() - begun >= pause


heartbeat = Heartbeat()
