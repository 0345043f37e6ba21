"""A shop for the workers, and for a test that sends to it: each defines it in its own registry."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from typing import Any

from django_rivet import Actor, Queue, current_step, workflow
from tests.journeys import outside


def define_shop() -> Any:
    class ShopActor(Actor):
        class Meta:
            app_label = "deadly"

        class State:
            log: list[str] = []

        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                order = turn.queue.next("order", names=["orders"]).body
                sold = turn.try_step("sell", self.sell, order, max_retries=2, retry_backoff_base=0)
                turn.step("note", self.note, f"{order} {sold.failure.kind if sold.failure else 'sold'}")

        def note(self, text):
            self.state.log.append(text)

        def sell(self, order):
            outside.note(order, current_step().idempotency_key)
            if order == "abort":
                faulthandler.disable()
                os.abort()
            if order == "exit":
                sys.exit(0)
            if order == "vanish":
                os._exit(1)
            if order == "interrupt":
                raise KeyboardInterrupt
            if order == "killed for its memory":
                os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does

    return ShopActor
