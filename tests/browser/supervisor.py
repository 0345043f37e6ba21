"""The demo's web process and worker on a test's database, watched by a thread as the demo watches them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from pathlib import Path

from django.db import connections

from example_project.demo.plug import Plug
from example_project.demo.processes import Processes, Supervised, listen
from example_project.demo.story import READY

LOOKS = 0.05


class Shop:
    """Starts on `start()`; `stop()` ends the processes, and raises what the thread has met."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._listener: socket.socket = listen(0)
        plugs = folder / "plug"
        self.root = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._processes = Processes(folder, self._listener, {**environment, "RIVET_DEMO_PLUG": str(plugs)})
        self._plug = Plug(plugs, self.worker)
        self._has_started, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor")
        self._error: BaseException | None = None

    @property
    def worker(self) -> Supervised:
        return self._processes.worker

    @property
    def web(self) -> Supervised:
        return self._processes.web

    @property
    def logs(self) -> str:
        logs = [process.log for process in (self.web, self.worker) if process.log.exists()]
        return "".join(f"\n--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in logs)

    def start(self) -> None:
        """Until both are ready; their first start is given plenty of time."""
        self._thread.start()
        if not self._has_started.wait(90) or self._error is not None:
            raise AssertionError(f"the shop did not start: {self._error}{self.logs}")

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(60)
        self._listener.close()
        if self._error is not None:
            raise AssertionError("the supervisor failed") from self._error

    # Below: how it is done -------------------------------------------------------------------

    def _supervise(self) -> None:
        """All in one thread: the kernel ends its children with the thread that has started them."""
        try:
            self._processes.wait_until(self._is_ready, 80, "web and worker are ready")
            self._has_started.set()
            while not self._is_over.wait(LOOKS):
                self._processes.look()
                self._plug.look()
        except BaseException as error:
            self._error = error
            self._has_started.set()
        finally:
            # Not asked to stop, which takes an idle worker some two seconds: that is tested elsewhere.
            self.worker.kill()
            self.web.kill()
            connections.close_all()

    def _is_ready(self) -> bool:
        return self.worker.has_said(READY) and self.web.has_said("Application startup complete")
