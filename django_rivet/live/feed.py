"""The events of one actor for one client: which ones it wants, and how far it has come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set

from channels.db import database_sync_to_async

from django_rivet.live import frames
from django_rivet.live.lookout import Watch
from django_rivet.live.stored_events import read_after


class ActorGoneError(Exception):
    """The actor was destroyed while a client was listening."""


class Feed:
    """Gives a client every stored event that it wants once and in order; passing ones as they come."""

    def __init__(
        self, watch: Watch, send: Callable[[str], Awaitable[None]], check: Callable[[], Awaitable[None]]
    ) -> None:
        """``send`` takes a frame and returns when the client has room for the next, which may be much later.

        So ``check`` is asked before each event; it may call ``restrict``, or raise to end it all.
        """
        self._watch = watch
        self._send = send
        self._check = check
        self._names: Set[str] = frozenset()
        self._has_begun = False
        """Nothing is read before the client has said what it wants: it may want what it missed."""

    @property
    def has_begun(self) -> bool:
        return self._has_begun

    def begin(self, since: int | None, last: int) -> None:
        """``last``: the number of the actor's last event."""
        self._has_begun = True
        if since is not None:
            # A number that was never given is from an earlier life of this key: none of this one's were seen.
            self._watch.seq = since if since <= last else 0

    def subscribe(self, names: Set[str]) -> None:
        self._names = self._names | names
        self._watch.news.set()

    def unsubscribe(self, names: Set[str] | None) -> None:
        self._names = frozenset() if names is None else self._names - names

    def restrict(self, visible: Set[str]) -> Set[str]:
        """Keep to what the client may still see; returns what it has lost."""
        lost = self._names - visible
        self._names = self._names & visible
        return lost

    async def send_next(self) -> bool:
        """Send a batch of what is new; returns whether there may be more. ``ActorGoneError`` where the actor is."""
        await self._send_passing()
        if not self._has_begun:
            return False
        batch = await database_sync_to_async(read_after)(self._watch.actor_id, self._watch.seq)
        if batch is None:
            raise ActorGoneError
        for seq, name, payload in batch.rows:
            await self._skip_to(seq - 1)
            await self._check()
            if name in self._names:
                await self._send(frames.event(name, payload, seq))
            self._watch.seq = seq
        await self._skip_to(batch.last)
        return batch.is_full

    # Below: how it is done -------------------------------------------------------------------

    async def _send_passing(self) -> None:
        passing = self._watch.passing
        while passing:
            name, payload = passing.popleft()
            await self._check()
            if name in self._names:
                await self._send(frames.event(name, payload))

    async def _skip_to(self, seq: int) -> None:
        """What is missing up to ``seq`` was pruned: the client has to know, whatever it has subscribed to."""
        if seq > self._watch.seq:
            await self._send(frames.gap(self._watch.seq + 1, seq))
            self._watch.seq = seq
