"""Notices, for all clients of one event loop, that an actor may have something new.

One query asks for all of them, so a hundred open pages cost the database no more than one. It is made ten times a
second where no channel layer leads to the workers, and every few seconds where one does: a lost message is late then,
never lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from django_rivet.live.ear import Ear
from django_rivet.live.stored_events import last_seqs
from django_rivet.runtime.publisher import EVENT, leads_elsewhere, told

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
HEARING_LOOK_SECONDS = 5.0
"""How often to look while the channel layer tells of news."""

STOP_SECONDS = 1.0
"""How long the last client waits for the channel layer to be left."""

MAX_PASSING = 100
"""Passing events that wait for a slow client; the oldest are dropped."""


class Watch:
    """What one client has to be told of one actor."""

    def __init__(self, actor_id: uuid.UUID, seq: int) -> None:
        self.actor_id = actor_id
        self.seq = seq
        """The number up to which the client has been served."""
        self.passing: deque[tuple[str, str]] = deque(maxlen=MAX_PASSING)
        """Names and payloads of events that are not stored."""
        self.news = asyncio.Event()


class Lookout:
    """The watches of one event loop. It works while there are any."""

    def __init__(self) -> None:
        self._watches: dict[uuid.UUID, set[Watch]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ear: Ear | None = None

    def add(self, watch: Watch) -> None:
        self._watches.setdefault(watch.actor_id, set()).add(watch)
        if not self._tasks:
            self._start()
        if self._ear is not None:
            self._ear.want(watch.actor_id)

    async def remove(self, watch: Watch) -> None:
        watches = self._watches.get(watch.actor_id, set())
        watches.discard(watch)
        if not watches:
            self._watches.pop(watch.actor_id, None)
            if self._ear is not None:
                self._ear.unwant(watch.actor_id)
        if not self._watches:
            await self._stop()

    # Below: how it is done -------------------------------------------------------------------

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        layer = get_channel_layer()
        if leads_elsewhere(layer):
            self._ear = Ear(layer, self._hear, self._wake)
            self._tasks.append(_start(self._ear.listen()))
        else:
            told.connect(self._hear_elsewhere)
        self._tasks.append(_start(self._look_on()))

    async def _stop(self) -> None:
        told.disconnect(self._hear_elsewhere)
        # Emptied before anything is awaited: the next client may come in between.
        tasks, self._tasks, self._ear, self._loop = self._tasks, [], None, None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)

    async def _look_on(self) -> None:
        due = 0.0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._ear is not None and self._ear.hears_all and time.monotonic() < due:
                continue
            try:
                await self._look()
            except Exception:
                logger.exception("the database could not be asked for new events; it is asked again")
                await asyncio.sleep(HEARING_LOOK_SECONDS)
            due = time.monotonic() + HEARING_LOOK_SECONDS

    async def _look(self) -> None:
        found = await database_sync_to_async(last_seqs)(list(self._watches))
        for watch in self._all():
            # Also where the actor is not found: its clients have to learn that.
            if found.get(watch.actor_id) != watch.seq:
                watch.news.set()

    def _all(self) -> Iterator[Watch]:
        for watches in self._watches.values():
            yield from watches

    def _hear_elsewhere(self, message: Mapping[str, Any], **kwargs: Any) -> None:
        """Called in the thread that committed."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._hear, message)

    def _hear(self, message: Mapping[str, Any]) -> None:
        actor_id = uuid.UUID(message["actor"])
        for watch in self._watches.get(actor_id, ()):
            if message["type"] == EVENT:
                watch.passing.append((message["name"], message["payload"]))
            watch.news.set()

    def _wake(self, actor_id: uuid.UUID) -> None:
        for watch in self._watches.get(actor_id, ()):
            watch.news.set()


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    # It outlives the connection that happens to be the first, whose context variables are none of its business.
    return asyncio.create_task(work, context=Context())


_lookouts: WeakKeyDictionary[asyncio.AbstractEventLoop, Lookout] = WeakKeyDictionary()


def lookout() -> Lookout:
    """The one of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _lookouts:
        _lookouts[loop] = Lookout()
    return _lookouts[loop]
