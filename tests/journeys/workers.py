"""Real worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from tests.services import dies_with_parent

PROJECT = Path(__file__).resolve().parents[2]


class WorkerProcess:
    """One ``manage.py rivet_worker``, in a process group of its own so that a kill takes its children too."""

    def __init__(self, environment: Mapping[str, str], log: Path, *options: str) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "rivet_worker", *options],
                cwd=PROJECT,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=dies_with_parent(),
                start_new_session=True,
            )

    def kill(self) -> None:
        """As ``kill -9`` on all of it: nothing gets a chance to tidy up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def is_ready(self) -> bool:
        return " ready." in self.log.read_text(errors="replace")


def eventually(condition: Callable[[], object], seconds: float, what: str, log: Path | None = None) -> float:
    """Look until it holds; returns how long that took. Real processes have no clock that a test could move."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            tail = log.read_text(errors="replace")[-4000:] if log is not None and log.exists() else ""
            raise AssertionError(f"not within {seconds:g} s: {what}\n{tail}")
        time.sleep(0.05)
    return time.monotonic() - began


def is_alive(process: psutil.Process) -> bool:
    """A zombie is not: where nobody waits for orphans, as in a container without an init, they stay for ever."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
