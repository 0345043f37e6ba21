"""An actor that a worker drives."""

from __future__ import annotations

from typing import Any

from django_rivet import Actor, Event, Queue, action, current_step, workflow


class Station(Actor):
    class Meta:
        # The same in the pytest process, where the app is not installed.
        name = "station.Station"

    programmes = Queue(int)
    sent = Event(int)
    flashed = Event(int, stored=False)

    @workflow
    def run(self, ctx: Any) -> None:
        for turn in ctx.loop("programmes"):
            count = turn.queue.next("next", names=["programmes"]).body
            for number in range(count):
                # Each in a commit of its own: as many broadcasts from one child of the worker.
                turn.step(f"send {number}", self.send_one, number, atomic=number % 2 == 0)

    def send_one(self, number: int) -> None:
        self.sent.broadcast(number)

    @action
    def flash(self, number: int) -> None:
        self.flashed.broadcast(number)


class Rehearsal(Actor):
    """Broadcasts from bodies of every sort, and from the error hook; each in a commit of its own."""

    class Meta:
        name = "station.Rehearsal"

    programmes = Queue(int)
    sent = Event(int)
    stumbled = Event(str)

    @workflow
    def run(self, ctx: Any) -> None:
        for turn in ctx.loop("programmes"):
            count = turn.queue.next("next", names=["programmes"]).body
            for number in range(count):
                body = (self.atomic, self.free, self.later, self.stumbling)[number % 4]
                turn.step(f"send {number}", body, number, atomic=number % 4 != 1, retry_backoff_base=0)

    @run.on_error
    def note(self, event: Any) -> None:
        self.stumbled.broadcast(event.step_name)

    def atomic(self, number: int) -> None:
        self.sent.broadcast(number)

    def free(self, number: int) -> None:
        self.sent.broadcast(number)

    async def later(self, number: int) -> None:
        self.sent.broadcast(number)

    def stumbling(self, number: int) -> None:
        if current_step().attempt == 1:
            raise ValueError("once more")
        self.sent.broadcast(number)
