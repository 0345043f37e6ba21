"""The launcher keeps its promise: whatever ends it, no server stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from tests import services
from tests.journeys.workers import is_alive

pytestmark = pytest.mark.journey

SHOW_AND_WAIT = """
import os, time
for name in "POSTGRES_URL", "REDIS_URL", "DIR":
    print(os.environ["RIVET_TEST_" + name], flush=True)
time.sleep(600)
"""


class Launcher:
    """A launcher with servers of its own, whose command waits to be stopped."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.services", "--", sys.executable, "-c", SHOW_AND_WAIT],
            env=environment(RIVET_TEST_PG="wheel"),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=services.dies_with_parent(signal.SIGTERM),
        )
        assert self.process.stdout is not None
        self.postgres_url, self.redis_url, folder = (self.process.stdout.readline().strip() for _ in range(3))
        self.folder = Path(folder)
        self.family = psutil.Process(self.process.pid).children(recursive=True)

    def living_children(self) -> list[psutil.Process]:
        """Those that run: where nobody reaps orphans, the dead stay listed."""
        return [child for child in self.family if is_alive(child)]


@pytest.fixture
def start() -> Iterator[Callable[[], Launcher]]:
    started: list[Launcher] = []

    def start() -> Launcher:
        started.append(Launcher())
        return started[-1]

    yield start
    for launcher in started:
        launcher.process.terminate()
        launcher.process.communicate(timeout=30)


def test_servers_answer(start):
    """The URLs that a command is given lead to servers that work."""
    launcher = start()

    with psycopg.connect(launcher.postgres_url) as connection:
        assert connection.execute("SELECT 6 * 7").fetchone() == (42,)
    with redis.Redis.from_url(launcher.redis_url) as client:
        assert client.ping()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_dead_launcher_leaves_no_process(start, stop):
    """Asked to stop or killed, the launcher takes its command and both servers along."""
    launcher = start()
    assert len(launcher.living_children()) >= 3

    launcher.process.send_signal(stop)
    launcher.process.wait(timeout=30)

    assert wait_until(lambda: not launcher.living_children())


def test_folders_of_the_dead_are_removed_and_no_others(start):
    """A killed launcher can't clear up, so the next one does, and leaves the living alone."""
    dead, living = start(), start()
    dead.process.kill()
    assert wait_until(lambda: not dead.living_children())

    for launcher in (dead, living):
        os.utime(launcher.folder, (0, 0))
        services.remove_if_stale(launcher.folder)

    assert not dead.folder.exists()
    assert living.folder.exists()


def test_a_missing_server_is_a_failure():
    """Where a server can't be had, the command doesn't run, and the reason is told."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.services", "--", sys.executable, "-c", "print('ran')"],
        env=environment(RIVET_TEST_POSTGRES_URL="postgresql://nobody@127.0.0.1:1/nothing"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert finished.returncode == 1
    assert "127.0.0.1:1" in finished.stderr
    assert finished.stdout == ""


def test_the_exit_code_is_the_commands():
    """CI sees what the command said."""
    exits = [sys.executable, "-c", "raise SystemExit(7)"]
    finished = subprocess.run([sys.executable, "-m", "tests.services", "--", *exits], timeout=60, check=False)

    assert finished.returncode == 7


def environment(**own: str) -> dict[str, str]:
    """This environment without what the outer launcher put there."""
    return {k: v for k, v in os.environ.items() if not k.startswith("RIVET_TEST_")} | own


def wait_until(holds: Callable[[], bool], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held
