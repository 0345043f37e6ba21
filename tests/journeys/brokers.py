"""A Redis that a test may mistreat, and a slow or silent way to one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import redis

from tests.journeys.workers import eventually
from tests.services import dies_with_parent, lasting_port, redis_command


class OwnRedis:
    """It keeps its port when it is started again, and nothing else."""

    def __init__(self, home: Path) -> None:
        self.port = lasting_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._home / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                redis_command(self._home, self.port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=dies_with_parent(),
            )
        eventually(self._answers, 30, "Redis answers", self._home / "redis.log")

    def kill(self) -> None:
        """Whoever wants to connect is refused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def freeze(self) -> None:
        """The kernel takes connections for it, and nobody answers."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Whatever it was told in the meantime is done now."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def pause(self, seconds: float) -> None:
        """Connections are taken, and what is said on them is done and answered when the time is over, not before."""
        with redis.Redis.from_url(self.url) as client:
            client.client_pause(int(seconds * 1000))

    def forget_everything(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def _answers(self) -> bool:
        with suppress(redis.RedisError), redis.Redis.from_url(self.url, socket_timeout=5) as client:
            return bool(client.ping())
        return False


class Passage:
    """A port that leads to another one, at once, slowly, or to nowhere."""

    def __init__(self, target: int) -> None:
        self.delay = 0.0
        """Seconds for each piece of data, in either direction."""
        self._target = target
        self._is_mute = False
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def fall_silent(self) -> None:
        """Connections stay open and new ones are taken; what is said is swallowed."""
        self._is_mute = True

    def speak_again(self) -> None:
        """Those that have lost something end; new ones lead on."""
        self._is_mute = False
        self._hang_up()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._hang_up()

    def _hang_up(self) -> None:
        opened, self._open = self._open, []
        for each in opened:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                target = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._open += [client, target]
            for source, sink in ((client, target), (target, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                time.sleep(self.delay)
                if not self._is_mute:
                    sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
