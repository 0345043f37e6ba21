"""Branches that meet in the world outside, and workers that die in the middle of them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from django_rivet import Actor, current_step, workflow
from tests.journeys import outside
from tests.journeys.models import Effect

BRANCHES = "abc"
PATIENCE_SECONDS = 60.0


def wait_for_all(effect: str) -> None:
    """Until each branch has noted it: none gets past this alone."""
    until = time.monotonic() + PATIENCE_SECONDS
    path = Path(os.environ[outside.VARIABLE])
    while not all(f"{effect}:{name}" in outside.effects(path) for name in BRANCHES):
        if time.monotonic() > until:
            raise TimeoutError(f"the branches do not meet at {effect!r}")
        time.sleep(0.02)


def gate(name: str) -> Path:
    """A file that the test makes."""
    return Path(f"{os.environ[outside.VARIABLE]}.{name}")


def wait_for_gate(name: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not gate(name).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"nobody opens the gate {name!r}")
        time.sleep(0.02)


class ParallelActor(Actor):
    """Three branches: a row, a slow call at which they meet, which ends when the test lets it, and another row."""

    class State:
        collected: list[str] = []

    @workflow
    def run(self, ctx):
        results = ctx.join("all", {name: lambda b, n=name: self.branch(b, n) for name in BRANCHES})
        ctx.step("collect", self.collect, sorted(results.values()))

    def branch(self, b, name: str) -> str:
        b.step("reserve", self.write, f"reserve:{name}")
        b.step("call", self.call, name, atomic=False, timeout=0)
        return b.step("confirm", self.write, f"confirm:{name}")

    def write(self, name: str) -> str:
        Effect.objects.create(name=name)
        return name

    def call(self, name: str) -> None:
        outside.note(f"begin:{name}", current_step().idempotency_key)
        wait_for_all("begin")
        wait_for_gate("calls may end")
        outside.note(f"end:{name}", current_step().idempotency_key)

    def collect(self, names: list[str]) -> None:
        self.state.collected = names


class HangingBranchActor(Actor):
    """One branch hangs beyond its time-out, while another waits for that to be on record."""

    @workflow
    def run(self, ctx):
        result = ctx.try_block("block", lambda block: block.join("all", {"hangs": self.hanging, "other": self.other}))
        return result.failure.error.message

    def hanging(self, b):
        b.step("hang", self.hang, timeout=1)

    def other(self, b):
        b.step("watch", self.watch, atomic=False, timeout=60)
        return b.step("write", self.write)

    def hang(self) -> None:
        Effect.objects.create(name="late")
        outside.note("hangs", current_step().idempotency_key)
        threading.Event().wait(20)
        Effect.objects.create(name="later")

    def watch(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        handle = type(self).get(self.key)
        while "block/all/hangs/hang" not in {e.path for e in handle.history() if e.status == "failed"}:
            if time.monotonic() > until:
                raise TimeoutError("the step that hangs does not fail")
            time.sleep(0.05)

    def write(self) -> None:
        Effect.objects.create(name="other")
