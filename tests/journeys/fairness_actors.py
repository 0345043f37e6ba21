"""Actors that would keep a worker to themselves, and one whose step stands still without asking the database."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django_rivet import Actor, Queue, action, workflow
from tests.journeys import outside

PATIENCE_SECONDS = 60.0


class EndlessActor(Actor):
    """With each message that it takes it sends itself the next; it takes those of others too."""

    class State:
        turns: int = 0

    again = Queue(int)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("turns"):
            turn.step("next", self.next, turn.queue.next("wait", names=["again"]).body)

    def next(self, number: int) -> None:
        self.state.turns += 1
        if number:
            EndlessActor.get(self.key).send("again", number + 1)


class StillActor(Actor):
    """Its atomic step asks the database nothing, for as long as nobody has noted ``go:<key>``."""

    @workflow
    def run(self, ctx):
        ctx.step("stand", self.stand, timeout=PATIENCE_SECONDS)

    def stand(self) -> None:
        outside.note("standing", self.key)
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            if f"go:{self.key}" in outside.effects(Path(os.environ[outside.VARIABLE])):
                return
            time.sleep(0.05)


class CounterActor(Actor):
    """Counts what actions and messages tell it."""

    class State:
        by_actions: int = 0
        by_messages: int = 0

    ticks = Queue(int)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("ticks"):
            turn.step("count", self.count, turn.queue.next("wait", names=["ticks"]).body)

    def count(self, number: int) -> None:
        self.state.by_messages += number

    @action
    def add(self, number: int) -> int:
        self.state.by_actions += number
        return self.state.by_actions

    @action(readonly=True)
    def counts(self) -> list[int]:
        return [self.state.by_actions, self.state.by_messages]


class BriefActor(Actor):
    """One step, at once."""

    @workflow
    def run(self, ctx):
        ctx.step("only", int)
