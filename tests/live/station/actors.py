"""An actor that a worker drives."""

from __future__ import annotations

from typing import Any

from django_rivet import Actor, Event, Queue, action, workflow


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
