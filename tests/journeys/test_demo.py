"""`make demo`: the story ends well, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from django.db import connection

from tests.journeys.workers import PROJECT, eventually
from tests.services import dies_with_parent

pytestmark = pytest.mark.journey

ADDRESS_IS_TOLD = "/admin/"

Demo = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "demo"


@pytest.fixture
def start_demo(folder: Path) -> Iterator[Demo]:
    """Start a demo in a folder of its own, on SQLite unless the environment says otherwise."""
    started = []

    def start(*options: str, **environment: str) -> subprocess.Popen[str]:
        own = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
        process = subprocess.Popen(
            [sys.executable, "-m", "example_project.demo", *options],
            cwd=PROJECT,
            env={
                **own,
                "RIVET_DEMO_DIR": str(folder),
                "PYTHONUNBUFFERED": "1",
                "PYTHONFAULTHANDLER": "1",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=dies_with_parent(signal.SIGTERM),
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.timeout(240)
def test_each_order_ends_as_it_should_twice_in_a_row(start_demo: Demo, folder: Path) -> None:
    """On SQLite with nothing else: confirmed, compensated, and confirmed in spite of a kill -9."""
    for _ in range(2):
        demo = start_demo("--once")
        told, _ = demo.communicate(timeout=100)

        assert demo.returncode == 0, told
        assert "Each order ended as it should." in told
        assert _lines_of("order-2", told) == [
            "wait-order completed",
            "reserve completed",
            "charge failed",
            "charge rolled back",
            "reserve rolled back",
            "reject completed",
        ]
        assert _left_over(folder) == []


@pytest.mark.django_db(transaction=True)
def test_the_demo_runs_on_postgresql_and_redis(start_demo: Demo, folder: Path, redis_url: str) -> None:
    """The two URLs are all that it takes; on the SQLite leg there is Redis beside SQLite."""
    environment = {"REDIS_URL": redis_url}
    if connection.vendor == "postgresql":
        server = urlsplit(os.environ["RIVET_TEST_POSTGRES_URL"])
        environment["DATABASE_URL"] = server._replace(path=f"/{connection.settings_dict['NAME']}").geturl()

    demo = start_demo("--once", **environment)
    told, _ = demo.communicate(timeout=100)

    assert demo.returncode == 0, told
    assert f"({connection.vendor})" in told
    assert _left_over(folder) == []


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_demo_that_is_ended_takes_its_processes_along(start_demo: Demo, folder: Path, stop: signal.Signals) -> None:
    """Ctrl-C, a polite request or a kill -9: neither the web process nor a worker stays."""
    demo = start_demo()
    assert demo.stdout is not None
    while ADDRESS_IS_TOLD not in demo.stdout.readline():
        assert demo.poll() is None
    assert len(_left_over(folder)) >= 2

    demo.send_signal(stop)
    demo.communicate(timeout=60)

    try:
        eventually(lambda: not _left_over(folder), 10, "all processes are gone")
    except AssertionError:
        pytest.fail(_where_they_stand(folder))


def test_a_folder_that_no_demo_has_made_is_left_alone(start_demo: Demo, folder: Path) -> None:
    """A wrong RIVET_DEMO_DIR costs nobody's files."""
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")

    demo = start_demo("--once")
    told, _ = demo.communicate(timeout=60)

    assert demo.returncode == 1
    assert "was not made by a demo" in told
    assert (folder / "thesis.txt").read_text() == "years of work"


def _left_over(folder: Path) -> list[psutil.Process]:
    """Running processes of the demo in that folder, found by their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("RIVET_DEMO_DIR") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue  # it is gone, or somebody else's
    return found


def _where_they_stand(folder: Path) -> str:
    """Of processes that did not end: who they are, and what they do. It ends them."""
    told = []
    for process in reversed(_left_over(folder)):  # a child before its parent, which would take it along
        with suppress(psutil.NoSuchProcess):
            told.append(f"{process.pid}, {process.status()}, of {process.ppid()}: {' '.join(process.cmdline())}")
            process.send_signal(signal.SIGABRT)  # Python's fault handler writes the stacks into the log
            psutil.wait_procs([process], timeout=5)
    logs = [f"--- {log}\n{log.read_text(errors='replace')[-6000:]}" for log in sorted(folder.glob("*.log"))]
    return "\n".join(["left over:", *told, *logs])


def _lines_of(order: str, told: str) -> list[str]:
    """What was told of that order: steps and what became of them.

    That a step is running is told, or not, by chance: the demo may look while it does.
    """
    story = told.partition(f"\n{order}: ")[2].partition("\n\n")[0].splitlines()[1:]
    words = [line.split() for line in story]
    return [" ".join(each[1:4] if each[2] == "rolled" else each[1:3]) for each in words if each[2] != "running"]
