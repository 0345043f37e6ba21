"""Tells who listens to an actor that it has broadcast something.

Stored events are rows and their message only says "look": it may be lost, doubled or late. An event with
``stored=False`` has nothing but its message: who does not hear it has missed it.

Nothing here can fail, delay or repeat a step. Messages go out after the commit, from a thread of their own; while the
channel layer is away a bounded number of them waits.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer
from django.db import transaction
from django.dispatch import Signal

from django_rivet.store.database import alias

logger = logging.getLogger(__name__)

LOOK = "rivet.look"
"""``{"type", "actor"}``: there may be new rows."""

EVENT = "rivet.event"
"""``{"type", "actor", "name", "payload"}``: an event that is no row; the payload is the codec's text."""

MAX_WAITING = 1000
"""Messages that wait for the channel layer; looks of one actor are one message. What comes on top is dropped."""

SEND_SECONDS = 2.0
"""A channel layer that has not taken a message by then has lost it."""

LULL_SECONDS = 0.02
"""Looks that come in the meantime become one. The first after a silence goes out at once."""

told = Signal()
"""Sent with ``message``, in the thread that committed, where no channel layer leads out of this process."""


def group_of(actor_id: uuid.UUID) -> str:
    """The channel group of an actor's listeners. Made of the id: keys hold characters that group names cannot."""
    return f"rivet.{actor_id.hex}"


def publish(actor_id: uuid.UUID, passing: Sequence[tuple[str, str]] = (), *, look: bool = True) -> None:
    """Tell listeners, once the surrounding transaction has committed, that there are new events. Never raises.

    ``passing``: names and payloads, as the codec's text, of events that are not stored. ``look=False``: there are
    only those.
    """
    messages: list[dict[str, str]] = [{"type": LOOK, "actor": actor_id.hex}] if look else []
    messages += [{"type": EVENT, "actor": actor_id.hex, "name": n, "payload": p} for n, p in passing]
    transaction.on_commit(partial(_tell, messages), using=alias(), robust=True)


def leads_elsewhere(layer: Any) -> bool:
    """Whether what is sent on this channel layer can come from, or reach, another process."""
    return layer is not None and not isinstance(layer, InMemoryChannelLayer)


def drain(timeout: float) -> bool:
    """Wait until no message waits any more; False where ``timeout`` seconds were not enough."""
    return _sender.idle.wait(timeout)


# Below: how it is done ---------------------------------------------------------------------------


def _tell(messages: Sequence[dict[str, str]]) -> None:
    if leads_elsewhere(get_channel_layer()):
        _sender.put(messages)
        return
    # The layer in memory is not safe to use from this thread, and would reach nobody that the signal does not.
    for message in messages:
        told.send_robust(sender=None, message=message)


class _Sender:
    """One event loop per process, in a thread: a loop per message would open a connection per message."""

    def __init__(self) -> None:
        self.idle = threading.Event()
        self.idle.set()
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str | int, dict[str, str]] = OrderedDict()
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._wake: asyncio.Event
        self._is_failing = False

    def put(self, messages: Sequence[dict[str, str]]) -> None:
        with self._lock:
            for message in messages:
                # A look that still waits is as good as a new one: whoever hears it sees what is committed by then.
                key = message["actor"] if message["type"] == LOOK else next(self._numbers)
                if len(self._waiting) < MAX_WAITING or key in self._waiting:
                    self._waiting[key] = message
                else:
                    self._complain(f"{MAX_WAITING} messages wait for it already")
            self.idle.clear()
            self._start()
            self._loop.call_soon_threadsafe(self._wake.set)

    # Below: how it is done -------------------------------------------------------------------

    def _start(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._work(),), name="rivet-publisher", daemon=True
        )
        self._thread.start()

    async def _work(self) -> None:
        """One message after the other, so that those of one actor arrive in order and only one is under way."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while (message := self._next()) is not None:
                await self._send(message)
            # An actor that commits a hundred times a second is looked at as often as anybody can follow.
            await asyncio.sleep(LULL_SECONDS)

    def _next(self) -> dict[str, str] | None:
        with self._lock:
            if not self._waiting:
                self.idle.set()
                return None
            return self._waiting.popitem(last=False)[1]

    async def _send(self, message: dict[str, str]) -> None:
        try:
            layer: Any = get_channel_layer()
            async with asyncio.timeout(SEND_SECONDS):
                await layer.group_send(group_of(uuid.UUID(message["actor"])), message)
        except Exception as error:
            self._complain(repr(error))
        else:
            if self._is_failing:
                logger.info("the channel layer takes messages again")
            self._is_failing = False

    def _complain(self, reason: str) -> None:
        # Once per outage: a layer that is away for an hour must not fill the log.
        if not self._is_failing:
            logger.warning(
                "the channel layer is not told of events: %s; clients get stored ones a few seconds later", reason
            )
        self._is_failing = True


_sender = _Sender()


def _begin_anew() -> None:
    """Neither the thread nor a lock that another thread held survives a fork; the waiting messages are the parent's."""
    global _sender
    _sender = _Sender()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
# The thread is a daemon's, which dies with the process: a short command's last events should still get out.
atexit.register(drain, 1.0)
