"""Actors for the stories of the field reports: they nap, fail, hang on to a moment, and die at it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from django_rivet import Actor, Queue, current_step, workflow
from tests.journeys import outside
from tests.journeys.models import Effect

NAP_SECONDS = 3.0
SHIFT_SECONDS = 2.0
PATIENCE_SECONDS = 20.0


def stamp(effect: str) -> None:
    """Note it with the time it happened at."""
    outside.note(effect, str(time.time()))


def has_happened(effect: str) -> bool:
    return effect in outside.effects(Path(os.environ[outside.VARIABLE]))


def stand_at(point: str, key: str) -> None:
    """The first time an actor whose key begins with this point comes here, its worker dies or is killed here.

    ``…/itself``: the pool's child takes its own life. Else it stands still until its parent is gone, or it is itself.
    """
    if key.partition("/")[0] != point or has_happened(f"at:{key}"):
        return
    outside.note(f"at:{key}", str(os.getpid()))
    if key.endswith("/itself"):
        os.kill(os.getpid(), signal.SIGKILL)
    parent = os.getppid()
    until = time.monotonic() + PATIENCE_SECONDS
    while os.getppid() == parent and time.monotonic() < until:
        time.sleep(0.02)


class NapActor(Actor):
    """Reserves, sleeps for longer than any broker keeps a message, and charges."""

    @workflow
    def run(self, ctx):
        ctx.step("reserve", self.reserve)
        ctx.sleep("nap", NAP_SECONDS)
        ctx.step("charge", self.charge, atomic=False)

    def reserve(self) -> None:
        Effect.objects.create(name=f"reserve:{self.key}")

    def charge(self) -> None:
        stamp(f"charge:{self.key}")


class SecondTryActor(Actor):
    """Its first attempt fails; the second is as far away as a nap is long."""

    @workflow
    def run(self, ctx):
        ctx.step("charge", self.charge, atomic=False, retry_backoff_base=NAP_SECONDS / 2, retry_jitter=0)

    def charge(self) -> None:
        stamp(f"attempt-{current_step().attempt}:{self.key}")
        if current_step().attempt == 1:
            raise ConnectionError("the provider is away")


class CutOffActor(Actor):
    """Three steps, and a worker that dies around the second; the key says where."""

    @workflow
    def run(self, ctx):
        ctx.step("a", self.write, "a")
        stand_at("claimed", self.key)
        ctx.step("b", self.charge, atomic=False)
        stand_at("recorded", self.key)
        ctx.step("c", self.write, "c")

    def write(self, name: str) -> None:
        Effect.objects.create(name=f"{name}:{self.key}")

    def charge(self) -> None:
        stand_at("begun", self.key)
        outside.note(f"b:{self.key}", current_step().idempotency_key)
        stand_at("charged", self.key)


class ClerkActor(Actor):
    """Takes letters one by one, and stands still at the first."""

    letters = Queue(str)

    @workflow
    def run(self, ctx):
        for turn in ctx.loop("letters"):
            letter = turn.queue.next("wait", names=["letters"]).body
            stand_at("claimed", self.key)
            turn.step("read", self.read, letter)
            stand_at("recorded", self.key)
            turn.step("file", self.file, letter)

    def read(self, letter: str) -> None:
        Effect.objects.create(name=f"read:{self.key}:{letter}")

    def file(self, letter: str) -> None:
        Effect.objects.create(name=f"file:{self.key}:{letter}")


class SlowProviderActor(Actor):
    """The provider answers after the caller has given up; it charges once per key."""

    @workflow
    def run(self, ctx):
        ctx.step("charge", self.charge, atomic=False, timeout=1, retry_on_timeout=True)

    def charge(self) -> None:
        key = current_step().idempotency_key
        if not has_happened("ask"):
            threading.Timer(1.5, outside.note, ["charge", key]).start()
        outside.note("ask", key)
        while not has_happened("charge"):
            time.sleep(0.02)


class CarelessProviderActor(Actor):
    """The provider knows no keys, so the step may run once only; its worker dies behind the charge."""

    @workflow
    def run(self, ctx):
        ctx.step("charge", self.charge, at_most_once=True)

    def charge(self) -> None:
        outside.note("charge", current_step().idempotency_key)
        stand_at("charged", self.key)


class OnceActor(Actor):
    """Notes that it began, and whose input made it."""

    class State:
        made_by: int = -1

    def create_state(self, input):
        return {"made_by": input}

    @workflow
    def run(self, ctx):
        ctx.step("begin", self.begin)

    def begin(self) -> None:
        outside.note("begin", current_step().idempotency_key)


class ShiftActor(Actor):
    """Three steps that are not retried when they fail."""

    @workflow
    def run(self, ctx):
        for name in ("first", "second", "third"):
            ctx.step(name, self.work, atomic=False, max_retries=0)

    def work(self) -> None:
        effect = f"{current_step().name}:{self.key}"
        outside.note(f"begin:{effect}", current_step().idempotency_key)
        time.sleep(SHIFT_SECONDS)
        outside.note(f"end:{effect}", current_step().idempotency_key)
