"""The calls of one connection stand in a line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_WAITING = 20
"""Calls of one connection that wait while another one is dealt with."""


class Line(Generic[T]):
    """Deals with one after the other, in the order in which they came."""

    def __init__(self, deal_with: Callable[[T], Awaitable[None]]) -> None:
        """``deal_with`` never raises."""
        self._deal_with = deal_with
        self._waiting: asyncio.Queue[T] = asyncio.Queue(MAX_WAITING)
        self._serving: asyncio.Task[None] | None = None

    def join(self, each: T) -> bool:
        """False where the line is full."""
        if self._waiting.full():
            return False
        self._waiting.put_nowait(each)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return True

    async def stop(self) -> None:
        """Who still waits is forgotten."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])

    # Below: how it is done -------------------------------------------------------------------

    async def _serve(self) -> None:
        while True:
            await self._deal_with(await self._waiting.get())
