"""``ctx.queue``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django_rivet.engine.decision import Note, Refuse, Replay, Wait
from django_rivet.engine.durations import Duration, seconds
from django_rivet.engine.entries import EntryStatus, Kind, Message
from django_rivet.engine.exceptions import InvalidStepError
from django_rivet.engine.failures import queue_timeout
from django_rivet.engine.scoped import Scoped
from django_rivet.engine.verbs import receive
from django_rivet.engine.walk import Walk


class Mailbox:
    """``ctx.queue``: the messages that were sent to this actor."""

    def __init__(self, scoped: Scoped) -> None:
        self._scoped = scoped

    def next(self, name: str, names: Sequence[str] | None = None, timeout: Duration | None = None) -> Message:
        """The oldest message of the queues ``names`` (default: of any); waits for one.

        Raises ``QueueTimeoutError`` where none came within ``timeout`` seconds of the first encounter; 0 is one
        look. Taken and recorded in one commit: a crash neither loses nor repeats it.
        """
        return self._receive(name, names, 1, timeout, fails_on_timeout=True)[0]

    def next_batch(
        self, name: str, names: Sequence[str] | None = None, count: int = 1, timeout: Duration | None = None
    ) -> list[Message]:
        """Up to ``count`` messages as soon as there is one; empty where none came within ``timeout`` seconds."""
        if type(count) is not int:
            raise InvalidStepError(f"wait {name!r}: count must be a whole number, not {count!r}")
        return self._receive(name, names, max(1, count), timeout, fails_on_timeout=False)

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
                    found = host.peek(wanted, count, history.taken_ids)
                    decision = receive.decide(
                        entry, found, wanted, limit, fails_on_timeout=fails_on_timeout, now=host.now()
                    )
                    if isinstance(decision, Note):
                        history.note_taken(found)
                match decision:
                    case Replay(stored):
                        return [self._message(m) for m in stored]
                    case Note(record, stored):
                        scoped.note(record)
                        if record.status is EntryStatus.FAILED:
                            raise queue_timeout(record, wanted)
                        return [self._message(m) for m in stored]
                    case Refuse(error):
                        raise error
                    case Wait(until, queues, record):
                        entry = scoped.note(record) if record is not None else entry
                        scoped.wait(until, queues)

    def _message(self, stored: Mapping[str, Any]) -> Message:
        body = self.walk.host.load_body(stored["name"], stored["body"])
        return Message(stored["id"], stored["name"], body, stored["created_at"])
