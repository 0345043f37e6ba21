"""The outside world: a file that only grows. Each body writes down that it began, who ran it, and how it ended."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from django_rivet import current_step

VARIABLE = "RIVET_CHAOS_LEDGER"

LOOK_SECONDS = 0.2
LATE_SECONDS = 0.6


class PlannedError(Exception):
    """A failure that the load asked for."""


@dataclass(frozen=True, slots=True)
class Line:
    """Times are seconds of the machine's monotonic clock, which all its processes share."""

    what: str
    """``begin``; ``end``, ``planned`` or ``broken``; ``stall``."""
    at: float
    pid: int
    group: int
    """Of processes: a worker and its children."""
    thread: int
    body: str = ""
    """Whose, and which: ``order:s0-17/charge``."""
    key: str = ""
    attempt: int = 0
    session: int = 0
    """The PostgreSQL session that this thread holds; 0 where there is none."""
    since: float = 0.0
    """Of a stall: when the process was last seen running."""
    error: str = ""


@contextmanager
def body(name: str) -> Iterator[None]:
    """Note how a step's body, or a handler's, began and ended."""
    _watch_this_process()
    step = current_step()

    def write(what: str, error: str = "") -> None:
        key, attempt = step.idempotency_key, step.attempt
        note(what, body=name, key=key, attempt=attempt, session=_session(), error=error)

    write("begin")
    try:
        yield
    except PlannedError:
        write("planned")
        raise
    except BaseException as error:
        write("broken", f"{type(error).__name__}: {error}"[:200])
        raise
    write("end")


def note(what: str, **values: object) -> None:
    """A line this short is appended whole, by any number of processes."""
    who = {"at": time.monotonic(), "pid": os.getpid(), "group": os.getpgid(0), "thread": threading.get_native_id()}
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{json.dumps({'what': what, **who, **values})}\n".encode())
    finally:
        os.close(file)


def read(path: Path) -> list[Line]:
    """All lines, oldest first."""
    lines = [Line(**json.loads(text)) for text in path.read_text().splitlines()] if path.exists() else []
    return sorted(lines, key=lambda line: line.at)


# Below: how it is done ---------------------------------------------------------------------------

_watched: set[int] = set()


def _session() -> int:
    """Known to the driver: asking the server would be a query that the body has not."""
    if connection.vendor != "postgresql" or connection.connection is None or connection.connection.closed:
        return 0
    return int(connection.connection.info.backend_pid)


def _watch_this_process() -> None:
    """A machine that gives a process no time for as long as a lease is as good as a freeze: that is a fact, too."""
    if os.getpid() not in _watched:
        _watched.add(os.getpid())
        threading.Thread(target=_watch, name="chaos-watch", daemon=True).start()


def _watch() -> None:
    while True:
        before = time.monotonic()
        time.sleep(LOOK_SECONDS)
        if time.monotonic() - before > LATE_SECONDS:
            note("stall", since=before)
