"""Bodies that hang, each in a way of its own."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from django_rivet import Actor, current_step, workflow
from tests.journeys import outside

HANGS_SECONDS = 20
"""Far beyond every time-out: a body that is not stopped in time ends after the test has failed."""


def sleep() -> None:
    time.sleep(HANGS_SECONDS)


def spin() -> None:
    ends = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < ends:
        pass


def read() -> None:
    ours, _theirs = socket.socketpair()
    ours.settimeout(HANGS_SECONDS)
    ours.recv(1)


def swallow() -> None:
    ends = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < ends:
        with suppress(Exception):
            time.sleep(0.05)


def swallow_all() -> None:
    """The worst that a library can do."""
    ends = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < ends:
        with suppress(BaseException):
            time.sleep(0.05)


class HangingActor(Actor):
    """Three attempts of one second each, every one of which hangs."""

    @workflow
    def run(self, ctx):
        return ctx.try_step(
            "hang", self.hang, timeout=1, retry_on_timeout=True, max_retries=2, retry_backoff_base=0.05
        ).failure.kind

    def hang(self) -> str:
        kind = self.key
        outside.note(f"begin:{kind}", current_step().idempotency_key)
        try:
            globals()[kind]()
        except BaseException:
            outside.note(f"stopped:{kind}", current_step().idempotency_key)
            raise
        outside.note(f"late:{kind}", current_step().idempotency_key)
        return "late"
