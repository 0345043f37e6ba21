"""``message.complete()``: noted by workflow code at once, by a step's body when that is put on record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django_rivet.engine.current import Completions, Strand, current_completions, current_strand
from django_rivet.engine.entries import Completion, Entry
from django_rivet.engine.exceptions import MessageAlreadyCompletedError, StepOnlyError
from django_rivet.engine.history import History
from django_rivet.engine.notes import Changes
from django_rivet.engine.verbs import receive
from django_rivet.engine.walk import Walk


class Completing:
    """The ``complete`` of one message in one pass."""

    def __init__(self, walk: Walk, path: str, message_id: int, queue: str, *, is_done: bool) -> None:
        self._walk = walk
        self._path = path
        self._message_id = message_id
        self._queue = queue
        self._was_done = is_done
        """On record when the workflow got the message: the code that did it runs once more on each replay."""
        self._is_called = False

    def __call__(self, response: Any) -> None:
        completions = current_completions()
        walk = self._of_this_pass(current_strand() if completions is None else completions.owner)
        if walk is not None and completions is not None:
            self._in_body(walk, completions, response)
        elif walk is not None:
            with walk.stopping():
                self._in_workflow(walk, response)
        else:
            raise StepOnlyError(
                f"{self} was completed outside of its workflow: complete() is for workflow code and for the bodies of "
                "its steps, in their own thread"
            )

    # Below: how it is done -------------------------------------------------------------------

    def _of_this_pass(self, strand: Strand | None) -> Walk | None:
        """It may be another branch than the one that received the message."""
        if not isinstance(strand, Walk) or strand.trunk is not self._walk.trunk or strand.trunk.is_over:
            return None
        return strand

    def _in_body(self, walk: Walk, completions: Completions, response: Any) -> None:
        walk.refuse_unwinding()
        if self._was_done:
            return
        if self._message_id in completions.made or self._is_done:
            raise self._done_before()
        completions.made[self._message_id] = self._completion(response)

    def _in_workflow(self, walk: Walk, response: Any) -> None:
        if self._is_called or (self._is_done and not self._was_done):
            raise self._done_before()
        if not self._was_done:
            walk.host.refuse_anything_new()
            complete_now(walk.history, [self._completion(response)])
        self._is_called = True

    @property
    def _is_done(self) -> bool:
        entry = self._walk.history.entries.get(self._path)
        return entry is None or self._message_id not in receive.open_ids(entry)

    def _completion(self, response: Any) -> Completion:
        return Completion(self._path, self._message_id, self._walk.host.response_text(self._queue, response))

    def _done_before(self) -> MessageAlreadyCompletedError:
        return MessageAlreadyCompletedError(f"{self} was completed before; its first response holds")

    def __str__(self) -> str:
        return f"message {self._message_id} of queue {self._queue!r}"


def complete_now(history: History, completions: Iterable[Completion]) -> None:
    """Note that these messages are completed: it rides with the next commit."""
    made = tuple(completions)
    history.note_completions(made)
    for entry in waits_completed_by(made, history):
        history.note(entry)


def absorb(history: History, written: Changes) -> None:
    """``History.absorb``; another branch may have completed other messages of the same wait meanwhile."""
    waits = {entry.path: entry for entry in waits_completed_by(written.completions, history)}
    history.absorb(replace(written, entries=tuple(waits.get(entry.path, entry) for entry in written.entries)))


def waits_completed_by(completions: Iterable[Completion], history: History) -> list[Entry]:
    """The new records of the waits that received these messages."""
    ids: dict[str, set[int]] = {}
    for completion in completions:
        ids.setdefault(completion.path, set()).add(completion.message_id)
    return [receive.completed(history.entries[path], done) for path, done in ids.items()]
