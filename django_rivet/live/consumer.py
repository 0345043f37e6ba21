"""One WebSocket connection: lets it in, listens to its frames, and sends it the events of its actor."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from functools import partial
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.exceptions import SuspiciousOperation

from django_rivet.live import frames
from django_rivet.live.access import NOT_FOUND, Admission, RefusedError, admit
from django_rivet.live.calls import Output, answer
from django_rivet.live.feed import ActorGoneError, Feed
from django_rivet.live.frames import Call, FrameError, Id, Subscribe, Unsubscribe
from django_rivet.live.hook import ask_actor
from django_rivet.live.line import MAX_WAITING, Line
from django_rivet.live.lookout import Watch, lookout
from django_rivet.live.threads import in_thread

logger = logging.getLogger(__name__)

RECHECK_SECONDS = 60.0
"""Who loses the right to see an actor gets no event of it after this long."""

CALL_SECONDS = 30.0
"""An action that takes longer is given up, and so is ``on_before_connect``."""

MAX_REASON = 123
"""Bytes of text that a close frame has room for."""

BAD_REQUEST = 4400
TOO_LARGE = 1009
INTERNAL_ERROR = 1011


class ActorConsumer(AsyncWebsocketConsumer):
    """Subscriptions are dealt with one after the other, as they come; so are actions and messages, in a line of their
    own; a third task sends events.

    Each may wait for a client that does not read: then the others wait too, and nothing piles up.
    """

    # No layer of that name: the lookout listens for all connections, so that one that is away keeps nobody out.
    channel_layer_alias = ""

    def __init__(self, *, recheck_seconds: float = RECHECK_SECONDS, call_seconds: float = CALL_SECONDS) -> None:
        super().__init__()
        self._recheck_seconds = recheck_seconds
        self._call_seconds = call_seconds
        self._calls = Line(self._make)
        self._recheck_at = 0.0
        self._watch: Watch | None = None
        self._admission: Admission
        """As it was last decided."""
        self._feed: Feed
        self._feeding: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._is_closed = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Also where the server cancels the connection without a word.
            await self._stop()

    async def connect(self) -> None:
        try:
            admission = await self._admit()
            await ask_actor(self.scope, admission, self._call_seconds)
        except RefusedError as refused:
            await self._refuse(refused)
            return
        except SuspiciousOperation:
            # Django reads no address with a thousand parameters.
            await self._refuse(RefusedError(BAD_REQUEST, "the address cannot be read"))
            return
        self._watch = Watch(admission.actor_id, admission.seq)
        self._feed = Feed(self._watch, self._send, self._recheck_if_due)
        await self.accept()
        await self._send(frames.init(admission.seq))
        lookout().add(self._watch)
        self._feeding = asyncio.create_task(self._feed_on())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        if self._watch is None or self._is_closed:
            return
        if len(text_data or bytes_data or "") > frames.MAX_FRAME_LENGTH:
            await self._close(TOO_LARGE, f"a frame may hold {frames.MAX_FRAME_LENGTH} characters")
            return
        frame_id: Id = None
        try:
            content = frames.read(text_data)
            frame_id = frames.take_id(content)
            await self._deal_with(frames.parse(content), frame_id)
        except FrameError as error:
            await self._send(frames.error(error.code, str(error), frame_id))
        except RefusedError as refused:
            await self._close(refused.code, refused.reason)
        except Exception:
            logger.exception("a frame about actor %s could not be dealt with", self._watch.actor_id)
            await self._close(INTERNAL_ERROR, "internal error")

    # Below: how it is done -------------------------------------------------------------------

    async def _deal_with(self, frame: Subscribe | Unsubscribe | Call, frame_id: Id) -> None:
        match frame:
            case Subscribe():
                await self._subscribe(frame)
            case Unsubscribe():
                self._unsubscribe(frame)
            case Call():
                if not self._calls.join((frame, frame_id)):
                    raise FrameError("too_many_calls", f"{MAX_WAITING} calls wait already; nothing came of this one")
                return
        if frame_id is not None:
            await self._send(frames.result(None, frame_id))

    async def _make(self, call: tuple[Call, Id]) -> None:
        assert self._watch is not None
        frame, frame_id = call
        try:
            made = await in_thread(partial(answer, self.scope, frame, self._watch.actor_id, self._call_seconds))
            if isinstance(made, Output):
                await self._send(frames.result(made.value, frame_id))
            else:
                await self._send(frames.failure(made, frame_id))
        except Exception:
            logger.exception("a frame about actor %s could not be answered", self._watch.actor_id)
            await self._close(INTERNAL_ERROR, "internal error")

    async def _subscribe(self, frame: Subscribe) -> None:
        admission = await self._recheck()
        _refuse_unknown(frame.events, admission)
        forbidden = set(frame.events or ()) - admission.events
        if forbidden:
            raise FrameError("forbidden", f"you may not see {', '.join(sorted(forbidden))}; nothing was subscribed to")
        if not self._feed.has_begun:
            self._feed.begin(frame.since, admission.seq)
        elif frame.since is not None:
            raise FrameError(
                "since_too_late",
                '"since" counts in the first subscription of a connection only: events come in order, once; '
                "nothing was subscribed to",
            )
        self._feed.subscribe(admission.events if frame.events is None else frozenset(frame.events))

    def _unsubscribe(self, frame: Unsubscribe) -> None:
        _refuse_unknown(frame.events, self._admission)
        self._feed.unsubscribe(None if frame.events is None else frozenset(frame.events))

    async def _feed_on(self) -> None:
        assert self._watch is not None
        news = self._watch.news
        try:
            while not self._is_closed:
                await _wait(news, self._recheck_at - time.monotonic())
                await self._recheck_if_due()
                news.clear()
                if await self._feed.send_next():
                    news.set()
        except RefusedError as refused:
            await self._close(refused.code, refused.reason)
        except ActorGoneError:
            await self._close(NOT_FOUND, "the actor was destroyed")
        except Exception:
            # The client comes back with the number of its last event, and misses nothing.
            logger.exception("the events of actor %s could not be sent", self._watch.actor_id)
            await self._close(INTERNAL_ERROR, "internal error")

    async def _recheck_if_due(self) -> None:
        if time.monotonic() >= self._recheck_at:
            await self._recheck()

    async def _recheck(self) -> Admission:
        """Who may see what, from what the database says now: permissions end while a connection is open."""
        admission = await self._admit()
        assert self._watch is not None
        if admission.actor_id != self._watch.actor_id:
            raise RefusedError(NOT_FOUND, "the actor was destroyed; another one has its key now")
        lost = self._feed.restrict(admission.events)
        if lost:
            await self._send(frames.error("forbidden", f"you may no longer see {', '.join(sorted(lost))}"))
        return admission

    async def _admit(self) -> Admission:
        self._admission = await database_sync_to_async(admit)(self.scope)
        self._recheck_at = time.monotonic() + self._recheck_seconds
        return self._admission

    async def _send(self, frame: str) -> None:
        async with self._sending:
            if self._is_closed:
                return
            try:
                await self.send(text_data=frame)
            except (OSError, RuntimeError) as error:
                # Servers disagree about how to say it: the client has left.
                logger.debug("a client has left: %r", error)
                self._is_closed = True

    async def _close(self, code: int, reason: str) -> None:
        async with self._sending:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                await self.close(code, reason)
            except (OSError, RuntimeError) as error:
                logger.debug("a client has left: %r", error)

    async def _refuse(self, refused: RefusedError) -> None:
        """Without accepting. A server that can answers with the HTTP status of that meaning, others with 403."""
        self._is_closed = True
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            await self.close(refused.code, refused.reason.encode()[:MAX_REASON].decode(errors="ignore"))
            return
        content: dict[str, Any] = {"code": _WORDS.get(refused.code, "error"), "message": refused.reason}
        if (failure := refused.failure) is not None:
            content = {"code": failure.code, "message": failure.message, "metadata": failure.metadata}
        body = json.dumps(content).encode()
        headers = [(b"content-type", b"application/json")]
        status = refused.code - 4000
        send: Any = self.base_send
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})

    async def _stop(self) -> None:
        self._is_closed = True
        if self._watch is not None:
            await lookout().remove(self._watch)
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.wait([self._feeding])
        await self._calls.stop()


_WORDS = {4400: "bad_request", 4401: "not_authenticated", 4403: "permission_denied", 4404: "not_found"}


def _refuse_unknown(names: tuple[str, ...] | None, admission: Admission) -> None:
    for name in names or ():
        if name not in admission.definition.events:
            declared = ", ".join(sorted(admission.events)) or "none"
            raise FrameError(
                "unknown_event", f"there is no event {name[:200]!r} that you may see; there are: {declared}"
            )


async def _wait(news: asyncio.Event, seconds: float) -> None:
    """Until there is news, or ``seconds`` are over."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await news.wait()
    except TimeoutError:
        pass
