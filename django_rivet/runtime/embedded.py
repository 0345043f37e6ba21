"""The broker of a worker that has none: kombu's memory transport, in the worker's event loop.

By itself that transport knows no event loop. Celery then lets all processes of a prefork pool take their work from one
queue behind one lock, and one that is killed while it waits for work takes the lock along: the others wait for ever.
In an event loop each process has a pipe of its own, as with Redis or RabbitMQ.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kombu.asynchronous import Hub
from kombu.transport import memory

POLLING_SECONDS = 0.05

NAME = f"{__name__}:Transport"
"""For Celery's ``broker_transport``."""


class Transport(memory.Transport):
    implements = memory.Transport.implements.extend(asynchronous=True)

    def register_with_event_loop(self, connection: Any, loop: Hub) -> None:
        loop.call_repeatedly(POLLING_SECONDS, self._deliver_all, connection)

    def _deliver_all(self, connection: Any) -> None:
        """All that the worker wants to take now; what it does not, stays."""
        with suppress(TimeoutError):  # nothing is left
            while True:
                self.drain_events(connection, timeout=0)
