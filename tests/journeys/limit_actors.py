"""Actors of which only so many may run, and one that may always."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django_rivet import Actor, workflow
from tests.journeys import outside

PATIENCE_SECONDS = 120.0


def gate(ledger: Path) -> Path:
    """Bodies stand still until this file is there."""
    return ledger.with_name("gate")


def stamp(effect: str) -> None:
    """Note it with the time it happened at."""
    outside.note(effect, str(time.time()))


class TwoAtOnceActor(Actor):
    """Its body says in which process it begins and ends, and stands still as long as the gate is shut."""

    class Meta:
        max_running = 2

    @workflow
    def run(self, ctx):
        ctx.step("work", self.work, atomic=False, timeout=0)

    def work(self) -> None:
        stamp(f"begin:{self.key}:{os.getpid()}")
        until = time.monotonic() + PATIENCE_SECONDS
        while not gate(Path(os.environ[outside.VARIABLE])).exists() and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.1)
        stamp(f"end:{self.key}:{os.getpid()}")


class BystanderActor(Actor):
    """Done as soon as a worker has time."""

    @workflow
    def run(self, ctx):
        ctx.step("pass", int)
