"""A real web process, and somebody who talks to it."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.journeys.workers import PROJECT, eventually
from tests.services import dies_with_parent

ANSWERS_IN = 10.0
"""Seconds, which are a few on a quiet machine. Whoever waits for a broker that is away waits longer."""


class WebProcess:
    """uvicorn with the example's ASGI application; requests are those of the user whose name and password are given."""

    def __init__(self, environment: Mapping[str, str], log: Path, user: str) -> None:
        self.log = log
        self._authorization = "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()
        with socket.create_server(("127.0.0.1", 0)) as listener, log.open("ab") as output:
            self.port = listener.getsockname()[1]
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "example_project.asgi:application", f"--fd={listener.fileno()}",
                 "--timeout-graceful-shutdown=2"],
                cwd=PROJECT,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[listener.fileno()],
                preexec_fn=dies_with_parent(),
            )  # fmt: skip

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def wait_until_ready(self) -> None:
        def answers() -> bool:
            with suppress(OSError):
                return self.ask("GET", "")[0] == 200
            return False

        eventually(answers, 60, "the web process answers", self.log)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and content of the answer; ``TimeoutError`` where there is none in a few seconds."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/actors/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": self._authorization},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=ANSWERS_IN) as answer:
            return answer.status, json.loads(answer.read())
