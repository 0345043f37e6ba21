"""Bodies that hang, each in a way of its own."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

from django.db import connection

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


def query() -> None:
    """PostgreSQL computes in another process, and SQLite in this one, where no Python runs meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) "
            "SELECT count(*) FROM n"
        )


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
    """Three attempts of one second each, every one of which hangs. When they begin and are given up is noted."""

    @workflow
    def run(self, ctx):
        return ctx.try_step(
            "hang", self.hang, timeout=1, retry_on_timeout=True, max_retries=2, retry_backoff_base=0.05
        ).failure.kind

    def hang(self) -> str:
        kind = self.key
        outside.note(f"begin:{kind}", current_step().idempotency_key)
        _note_time("begun", kind, current_step().attempt)
        try:
            globals()[kind]()
        except BaseException:
            outside.note(f"stopped:{kind}", current_step().idempotency_key)
            raise
        outside.note(f"late:{kind}", current_step().idempotency_key)
        return "late"

    @run.on_error
    def tell(self, event) -> None:
        if event.kind == "step":
            _note_time("given-up", self.key, event.attempt)


def durations(ledger: Path, kind: str) -> list[float]:
    """Of each attempt: the seconds from its begin until it was given up."""
    begun, given_up = (_times(ledger, what, kind) for what in ("begun", "given-up"))
    return [given_up[attempt] - began for attempt, began in begun.items()]


def _note_time(what: str, kind: str, attempt: int) -> None:
    outside.note(f"{what}:{kind}:{attempt}", str(time.monotonic()))


def _times(ledger: Path, what: str, kind: str) -> dict[str, float]:
    """By attempt: when that was first noted."""
    prefix = f"{what}:{kind}:"
    return {
        effect.removeprefix(prefix): min(map(float, moments))
        for effect, moments in outside.effects(ledger).items()
        if effect.startswith(prefix)
    }
