"""``ctx.queue``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from django_rivet.engine.completing import Completing, complete_now
from django_rivet.engine.decision import Note, Refuse, Replay, Wait
from django_rivet.engine.durations import Duration, seconds
from django_rivet.engine.entries import CompletableMessage, Completion, Entry, EntryStatus, Kind, Message
from django_rivet.engine.exceptions import InvalidStepError, MessageNotCompletedError
from django_rivet.engine.failures import queue_timeout
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.verbs import receive
from django_rivet.engine.walk import Walk


class Mailbox:
    """``ctx.queue``: the messages that were sent to this actor."""

    def __init__(self, scoped: Scoped) -> None:
        self._scoped = scoped

    @overload
    def next(
        self,
        name: str,
        names: Sequence[str] | None = None,
        timeout: Duration | None = None,
        completable: Literal[False] = False,
    ) -> Message: ...
    @overload
    def next(
        self,
        name: str,
        names: Sequence[str] | None = None,
        timeout: Duration | None = None,
        *,
        completable: Literal[True],
    ) -> CompletableMessage: ...
    def next(
        self,
        name: str,
        names: Sequence[str] | None = None,
        timeout: Duration | None = None,
        completable: bool = False,
    ) -> Message:
        """The oldest message of the queues ``names`` (default: of any); waits for one.

        Raises ``QueueTimeoutError`` where none came within ``timeout`` seconds of the first encounter; 0 is one
        look. Taken and recorded in one commit: a crash neither loses nor repeats it. One that is ``completable``
        stays open until its ``complete()``; until then the workflow gets no other message, and asking for one raises
        ``MessageNotCompletedError``.
        """
        return self._receive(name, names, 1, timeout, fails_on_timeout=True, completable=completable)[0]

    @overload
    def next_batch(
        self,
        name: str,
        names: Sequence[str] | None = None,
        count: int = 1,
        timeout: Duration | None = None,
        completable: Literal[False] = False,
    ) -> list[Message]: ...
    @overload
    def next_batch(
        self,
        name: str,
        names: Sequence[str] | None = None,
        count: int = 1,
        timeout: Duration | None = None,
        *,
        completable: Literal[True],
    ) -> list[CompletableMessage]: ...
    def next_batch(
        self,
        name: str,
        names: Sequence[str] | None = None,
        count: int = 1,
        timeout: Duration | None = None,
        completable: bool = False,
    ) -> Sequence[Message]:
        """Up to ``count`` messages as soon as there is one; empty where none came within ``timeout`` seconds.

        Where they are ``completable`` each of them has to be completed before the next is asked for.
        """
        if type(count) is not int:
            raise InvalidStepError(f"wait {name!r}: count must be a whole number, not {count!r}")
        return self._receive(name, names, max(1, count), timeout, fails_on_timeout=False, completable=completable)

    # Below: how it is done -------------------------------------------------------------------

    @property
    def walk(self) -> Walk:
        return self._scoped.walk

    def _receive(
        self,
        name: str,
        names: Sequence[str] | None,
        count: int,
        timeout: Duration | None,
        *,
        fails_on_timeout: bool,
        completable: bool,
    ) -> list[Message]:
        scoped = self._scoped
        with self.walk.guarded(scoped):
            if isinstance(names, str):
                raise InvalidStepError(f"wait {name!r}: names must be a list of queue names, not the string {names!r}")
            wanted = tuple(dict.fromkeys(names or ()))
            limit = None if timeout is None else seconds(timeout, f"the timeout of wait {name!r}")
            _, entry = scoped.enter(name, Kind.MESSAGE)
            host, history = self.walk.host, self.walk.history
            while True:
                decision = receive.recorded(entry, wanted)
                if decision is None:
                    self._refuse_while_open(name)
                    found = host.peek(wanted, count, history.taken_ids)
                    decision = receive.decide(
                        entry,
                        found,
                        wanted,
                        limit,
                        fails_on_timeout=fails_on_timeout,
                        completable=completable,
                        now=host.now(),
                    )
                    if isinstance(decision, Note):
                        history.note_taken(found, stay_open=completable)
                match decision:
                    case Replay(stored):
                        return self._messages(entry, stored, completable)
                    case Note(record, stored):
                        record = scoped.note(record)
                        if record.status is EntryStatus.FAILED:
                            raise queue_timeout(record, wanted)
                        return self._messages(record, stored, completable)
                    case Refuse(error):
                        raise error
                    case Wait(until, queues, record):
                        entry = scoped.note(record) if record is not None else entry
                        scoped.wait(until, queues)

    def _refuse_while_open(self, name: str) -> None:
        for path in self.walk.history.open_waits:
            if self.walk.history.are_side_by_side(path, self._scoped.scope.path):
                continue
            ids = sorted(receive.open_ids(self.walk.history.entries[path]))
            raise MessageNotCompletedError(
                f"the wait {name!r} asks for a message while {'message' if len(ids) == 1 else 'messages'} "
                f"{', '.join(map(str, ids))}, which the wait {path!r} received, {'is' if len(ids) == 1 else 'are'} "
                "open: call complete() on each of them before"
            )

    def _messages(self, entry: Entry, stored: Sequence[Mapping[str, Any]], completable: bool) -> list[Message]:
        if not completable and entry.status is EntryStatus.OPEN:
            # The code that took them meant to complete them. This one does not, so nobody would.
            self.walk.host.refuse_anything_new()
            left = sorted(receive.open_ids(entry))
            complete_now(self.walk.history, [Completion(entry.path, each, "null") for each in left])
        return [self._message(entry.path, each, completable) for each in stored]

    def _message(self, path: str, stored: Mapping[str, Any], completable: bool) -> Message:
        message_id, queue = stored["id"], stored["name"]
        body = self.walk.host.load_body(queue, stored["body"])
        if not completable:
            return Message(message_id, queue, body, stored["created_at"])
        # What was taken by code that did not ask for it cannot be completed any more: it was handled then.
        completing = Completing(self.walk, path, message_id, queue, is_done=stored.get("completed", True))
        return CompletableMessage(message_id, queue, body, stored["created_at"], completing)
