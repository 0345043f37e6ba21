"""``transaction.on_commit``: what was asked for is done after the commit, by code as free as any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_rivet import Actor, CriticalError, Queue, action, workflow
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def audit() -> Iterator[Any]:
    """An actor that hooks call, and send messages to."""
    with isolated_actors():

        class Audit(Actor):
            class State:
                notes: list[str] = []

            letters = Queue(str)

            @workflow
            def run(self, ctx):
                for turn in ctx.loop("letters"):
                    turn.step("note", self.note, turn.queue.next("letter").body)

            @action
            def note(self, text: str) -> None:
                self.state.notes.append(text)

            @action
            def note_later(self, text: str) -> None:
                transaction.on_commit(lambda: self.note_elsewhere(text))
                self.state.notes.append("asked for")

            def note_elsewhere(self, text: str) -> None:
                Audit.get("main").note(text)

        yield Audit.create("main")


def tell(audit: Any, text: str) -> None:
    """Call and send, when the transaction is over."""
    transaction.on_commit(lambda: audit.note(f"called by {text}"))
    transaction.on_commit(lambda: audit.send("letters", f"sent by {text}"))


def told(audit: Any, text: str) -> bool:
    drive(audit)
    return audit.state.notes == [f"called by {text}", f"sent by {text}"]


def test_the_hook_of_an_action_calls_other_actors(audit: Any) -> None:
    """The turn of the action is over then: what the hook does is saved by turns of its own."""

    class Desk(Actor):
        @action
        def work(self) -> None:
            tell(audit, "a desk")

    Desk.create("main").work()

    assert told(audit, "a desk")


def test_the_hook_of_an_action_calls_its_own_actor(audit: Any) -> None:
    """It finds what the action has saved, and adds to it."""
    audit.note_later("later")

    assert audit.state.notes == ["asked for", "later"]


def test_the_hook_of_a_creation_calls_the_new_actor() -> None:
    """It is committed by then, with the state that its creation gave it."""
    with isolated_actors():

        class Desk(Actor):
            class State:
                notes: list[str] = []

            def on_create(self, input):
                self.state.notes.append("created")
                transaction.on_commit(lambda: Desk.get("main").note("committed"))

            @action
            def note(self, text: str) -> None:
                self.state.notes.append(text)

        desk = Desk.create("main")

        assert desk.state.notes == ["created", "committed"]


def test_the_hook_of_a_blocks_rollback_handler_calls_other_actors(audit: Any) -> None:
    """Its handlers run in the midst of the workflow's code, but the hook is no workflow code."""

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_block("stay", self.stay, rollback=True)

        def stay(self, block):
            block.rollback_checkpoint("stay")
            block.step("room", int, rollback=self.give_back)
            block.step("fail", self.fail)

        def give_back(self, rollback, output):
            tell(audit, "a handler")

        def fail(self):
            raise CriticalError("no")

    assert drive(Trip.create("one")) == "completed"

    assert told(audit, "a handler")


def test_the_hook_of_an_error_hook_calls_other_actors(audit: Any) -> None:
    """The failure is on record by then."""

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_step("fail", self.fail)

        @run.on_error
        def note(self, event):
            tell(audit, "an error hook")

        def fail(self):
            raise CriticalError("no")

    assert drive(Trip.create("one")) == "completed"

    assert told(audit, "an error hook")
