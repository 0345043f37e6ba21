"""Listens to the channel layer, for all clients of one event loop on one channel.

A consumer of Channels would listen by itself, but then a channel layer that is away keeps every client out. Here it
only makes events come a little later.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

from django_rivet.runtime.publisher import group_of

logger = logging.getLogger(__name__)

LAYER_SECONDS = 5.0
"""How long the channel layer may take for one request."""

RETRY_SECONDS = 1.0

REJOIN_SECONDS = 60.0
"""Groups are joined again this often: a layer may forget them, by a restart or by its own expiry."""


class Ear:
    """Keeps the groups of the actors that are wanted joined, whatever becomes of the layer in between."""

    def __init__(
        self, layer: Any, heard: Callable[[dict[str, Any]], None], joined: Callable[[uuid.UUID], None]
    ) -> None:
        """``joined`` is told of an actor when its messages begin to come: what was sent before is to be looked for."""
        self._layer = layer
        self._heard = heard
        self._told_joined = joined
        self._wanted: set[uuid.UUID] = set()
        self._joined: set[uuid.UUID] = set()
        self._changed = asyncio.Event()
        self._channel: str | None = None
        self._is_receiving = False
        self._is_failing = False

    @property
    def hears_all(self) -> bool:
        """As far as one can know: a layer may lose its connection without a word."""
        return self._is_receiving and self._wanted <= self._joined

    def want(self, actor_id: uuid.UUID) -> None:
        self._wanted.add(actor_id)
        self._changed.set()

    def unwant(self, actor_id: uuid.UUID) -> None:
        self._wanted.discard(actor_id)
        self._changed.set()

    async def listen(self) -> None:
        """Until it is cancelled."""
        receiving: asyncio.Task[None] | None = None
        try:
            while True:
                await self._wait_for_change()
                try:
                    if self._channel is None:
                        self._channel = await self._ask(self._layer.new_channel)
                        receiving = asyncio.create_task(self._receive(self._channel))
                    await self._join_and_leave(self._channel)
                    self._is_failing = False
                except Exception as error:
                    self._complain(error)
                    await asyncio.sleep(RETRY_SECONDS)
                    self._changed.set()
        finally:
            if receiving is not None:
                await self._leave_all(receiving)

    # Below: how it is done -------------------------------------------------------------------

    async def _wait_for_change(self) -> None:
        try:
            async with asyncio.timeout(REJOIN_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            # Those that somebody has ceased to want at this very moment are still to be left.
            self._joined -= self._wanted
        self._changed.clear()

    async def _join_and_leave(self, channel: str) -> None:
        for actor_id in self._joined - self._wanted:
            await self._ask(self._layer.group_discard, group_of(actor_id), channel)
            self._joined.discard(actor_id)
        for actor_id in self._wanted - self._joined:
            await self._ask(self._layer.group_add, group_of(actor_id), channel)
            self._joined.add(actor_id)
            self._told_joined(actor_id)

    async def _leave_all(self, receiving: asyncio.Task[None]) -> None:
        receiving.cancel()
        try:
            for actor_id in self._joined:
                await self._ask(self._layer.group_discard, group_of(actor_id), self._channel)
        except Exception as error:
            self._complain(error)
        await asyncio.wait([receiving], timeout=LAYER_SECONDS)

    async def _receive(self, channel: str) -> None:
        while True:
            self._is_receiving = True
            try:
                message = await self._layer.receive(channel)
            except Exception as error:
                self._is_receiving = False
                self._complain(error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            try:
                self._heard(message)
            except (KeyError, TypeError, ValueError):
                logger.warning("the channel layer brought a message that is none of ours: %.200r", message)

    async def _ask(self, request: Callable[..., Any], *args: Any) -> Any:
        async with asyncio.timeout(LAYER_SECONDS):
            return await request(*args)

    def _complain(self, error: Exception) -> None:
        # Once per outage, not once per try.
        if not self._is_failing:
            logger.warning("the channel layer cannot be heard: %r; clients get events a little later", error)
        self._is_failing = True
