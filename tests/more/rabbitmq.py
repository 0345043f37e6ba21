"""A RabbitMQ of a test's own, from Debian's package: its node, its ports and its files are nobody else's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.journeys.workers import eventually
from tests.services import ServiceError, dies_with_parent, free_port

# Not those on the PATH, which become another user and forget the environment.
BINARIES = Path("/usr/lib/rabbitmq/bin")

STARTS_IN = 300.0


class RabbitServer:
    """It keeps its files, so a queue and what is in it outlive a kill."""

    def __init__(self, home: Path) -> None:
        if not (BINARIES / "rabbitmq-server").exists():
            raise ServiceError(
                f"RabbitMQ: there is no {BINARIES}/rabbitmq-server."
                " Install Debian's package: apt-get install --no-install-recommends rabbitmq-server"
            )
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        self.log = home / "rabbitmq.log"
        self._home = home
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(home),  # Erlang's cookie lies there
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"rivet-{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_LOGS": "-",
            "RUNNING_UNDER_SYSTEMD": "true",  # no shell in between, which would die alone
            "RABBITMQ_CONF_ENV_FILE": str(home / "no-such-file"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            # Small and quiet: it shares the machine with what it serves.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
        }
        (home / "plugins").write_text("[].\n")
        # The machine's memory and disk are not the subject, until a test says so.
        (home / "rabbitmq.conf").write_text("disk_free_limit.absolute = 1MB\n")
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        if not self._processes:
            epmd = shutil.which("epmd")
            assert epmd is not None, "it comes with the package"
            # Else the first node would start one that stays when all nodes are gone.
            self._run([epmd, "-address", "127.0.0.1", "-port", self._environment["ERL_EPMD_PORT"]])
        self._run([str(BINARIES / "rabbitmq-server")])
        eventually(self._is_running, STARTS_IN, "RabbitMQ is running", self.log)

    def kill(self) -> None:
        """The node, with nothing written that was not written already."""
        self._end(self._processes.pop())

    def stop(self) -> None:
        while self._processes:
            self.kill()

    def raise_memory_alarm(self) -> None:
        """Whoever publishes is not read any more, from the next message on."""
        self.control("set_vm_memory_high_watermark", "0.00001")
        eventually(lambda: "memory resource limit alarm set" in self.log.read_text(), 60, "the alarm", self.log)

    def lift_memory_alarm(self) -> None:
        self.control("set_vm_memory_high_watermark", "0.9")

    def control(self, *command: str) -> str:
        done = subprocess.run(
            [BINARIES / "rabbitmqctl", "--quiet", *command],
            env=self._environment, check=False, capture_output=True, text=True, timeout=60,
            preexec_fn=dies_with_parent(),
        )  # fmt: skip
        if done.returncode:
            raise ServiceError(f"rabbitmqctl {command}: {done.stdout}{done.stderr}")
        return done.stdout

    # Below: how it is done -------------------------------------------------------------------

    def _run(self, command: list[str]) -> None:
        with self.log.open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    command,
                    cwd=self._home,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=dies_with_parent(),
                )
            )

    def _is_running(self) -> bool:
        with suppress(ServiceError, subprocess.TimeoutExpired):
            self.control("await_startup", "--timeout", "30")
            return True
        return False

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """With all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
