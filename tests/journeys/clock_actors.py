"""Actors that wait in every way there is, and note when by the engine's clock they went on."""

from __future__ import annotations

from contextlib import suppress

from django_rivet import Actor, Queue, QueueTimeoutError, current_step, workflow
from django_rivet.testing import now
from tests.journeys import outside

WAIT_SECONDS = 3.0


class AlarmActor(Actor):
    """One wait after another, each of ``WAIT_SECONDS``; a note before and behind each."""

    nothing = Queue(str)
    letters = Queue(str)

    @workflow
    def run(self, ctx):
        ctx.step("begin", self.stamp)
        ctx.sleep("nap", WAIT_SECONDS)
        ctx.step("slept", self.stamp)
        ctx.step("tried", self.fail_once, atomic=False, retry_backoff_base=WAIT_SECONDS, retry_jitter=0)
        with suppress(QueueTimeoutError):
            ctx.queue.next("none", names=["nothing"], timeout=WAIT_SECONDS)
        ctx.step("gave-up", self.stamp)
        ctx.step("sent", self.send)
        ctx.queue.next("letter", names=["letters"])
        ctx.step("read", self.stamp)

    def stamp(self) -> None:
        outside.note(current_step().name, str(now().timestamp()))

    def fail_once(self) -> None:
        outside.note(f"tried-{current_step().attempt}", str(now().timestamp()))
        if current_step().attempt == 1:
            raise ConnectionError("the provider is away")

    def send(self) -> None:
        self.stamp()
        AlarmActor.get(self.key).send("letters", "later", delay=WAIT_SECONDS)


class NightActor(Actor):
    """Sleeps for an hour."""

    @workflow
    def run(self, ctx):
        ctx.sleep("night", 3600)
