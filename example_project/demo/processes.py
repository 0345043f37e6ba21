"""The demo's processes: started, watched, started again when they die, and none of them outlives the demo."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
STOPS_IN = 15.0
"""Seconds a process has for what it is at."""

RESTART_PAUSE = 1.0


class DemoError(Exception):
    """The demo can't go on; the text says why."""


class Supervised:
    """A process in a group of its own. What dies is started again at the next look."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        inherits: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``environment``: all of it; None means ours."""
        self.log = log
        self.starts = 0
        self._command = command
        self._environment = environment
        self._inherits = inherits
        self._process: subprocess.Popen[bytes] | None = None
        self._log_before = 0
        self._started_at = 0.0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def look(self) -> None:
        """Start it, unless it runs. One that dies at once again and again is not started more than once a second."""
        if not self.is_running and time.monotonic() - self._started_at >= RESTART_PAUSE:
            self._start()

    def has_said(self, words: str) -> bool:
        """Whether this is in its log since it was last started."""
        with self.log.open("rb") as log:
            log.seek(self._log_before)
            return words.encode() in log.read()

    def kill(self) -> None:
        """`kill -9` on it and on all it has started: nothing gets a chance to tidy up."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Until it has stopped, or else is killed; what it may have left behind in its group is killed anyway."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))
            self.kill()

    # Below: how it is done ---------------------------------------------------------------------

    def _start(self) -> None:
        self._started_at = time.monotonic()
        self.starts += 1
        with self.log.open("ab") as output:
            self._log_before = output.tell()
            self._process = subprocess.Popen(  # noqa: S603 - commands of our own
                self._command,
                cwd=PROJECT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=self._inherits,
                # The Ctrl-C that ends the demo is the demo's to hand on.
                start_new_session=True,
                preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509 - it must be armed between fork and exec
            )


class Processes:
    """The web process and the worker."""

    def __init__(self, folder: Path, listener: socket.socket, environment: Mapping[str, str] | None = None) -> None:
        fd = listener.fileno()
        web = ["-m", "uvicorn", "example_project.asgi:application", f"--fd={fd}", "--timeout-graceful-shutdown=2"]
        worker = ["manage.py", "rivet_worker"]
        self.web = Supervised([sys.executable, *web], folder / "web.log", inherits=[fd], environment=environment)
        self.worker = Supervised([sys.executable, *worker], folder / "worker.log", environment=environment)

    def wait_until(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Watch both until it holds; `DemoError` with the end of their logs when that takes too long."""
        deadline = time.monotonic() + seconds
        self.look()
        while not condition():
            if time.monotonic() > deadline:
                logs = "".join(f"\n--- {p.log}\n{p.log.read_text(errors='replace')[-3000:]}" for p in self._all)
                raise DemoError(f"{what}: not within {seconds:g} s{logs}")
            time.sleep(0.1)
            self.look()

    def watch(self, also: Callable[[], None]) -> None:
        """Until the demo is interrupted; ``also`` is called at each look."""
        while True:
            self.look()
            also()
            time.sleep(0.1)

    def look(self) -> None:
        for process in self._all:
            process.look()

    def stop(self) -> None:
        """End both; whoever asks a second time doesn't want to wait."""
        deadline = time.monotonic() + STOPS_IN
        try:
            for process in self._all:
                process.ask_to_stop()
            for process in self._all:
                process.wait(deadline)
        finally:
            for process in self._all:
                process.kill()

    @property
    def _all(self) -> list[Supervised]:
        return [self.web, self.worker]


def listen(wanted: int) -> socket.socket:
    """On the wanted port, or on any if that one is taken. The web process inherits it: nobody else can come between."""
    for port in (wanted, 0):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError:
            listener.close()
        else:
            return listener
    raise DemoError("no port is free")


def _dies_with(parent: int) -> Callable[[], None]:
    """Let the kernel kill the child when the demo is gone: after a `kill -9` nobody else can."""

    def arm() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        pr_set_pdeathsig = 1
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return arm
