"""Tells the channel layer to look: the events themselves are rows."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from functools import partial

from channels.layers import get_channel_layer
from django.db import transaction

from django_rivet.store.database import alias

logger = logging.getLogger(__name__)


def group_of(actor_id: uuid.UUID) -> str:
    """The channel group of an actor's listeners. Made of the id: keys hold characters that group names cannot."""
    return f"rivet.{actor_id.hex}"


def publish(actor_id: uuid.UUID) -> None:
    """Tell listeners, once the surrounding transaction has committed, that there is something new. Never raises."""
    transaction.on_commit(partial(_loop.tell, actor_id), using=alias(), robust=True)


# Below: how it is done ---------------------------------------------------------------------------


class _Loop:
    """One event loop per process, in a thread: a loop per message would open a connection per message."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self, actor_id: uuid.UUID) -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        asyncio.run_coroutine_threadsafe(self._send(layer, actor_id), self._running())

    @staticmethod
    async def _send(layer: object, actor_id: uuid.UUID) -> None:
        try:
            await layer.group_send(group_of(actor_id), {"type": "rivet.look"})  # type: ignore[attr-defined]
        except Exception as error:
            # Who listens will look by itself a little later, or catch up when it reconnects.
            logger.warning("the channel layer was not told of actor %s: %s", actor_id, error)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                # Made here and not at import: a thread does not survive the fork of a prefork worker.
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="rivet-publisher", daemon=True)
                self._thread.start()
            return self._loop


_loop = _Loop()
