"""The workers, and what can be done to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.journeys.workers import WorkerProcess

GRACE_SECONDS = 15.0
"""What a worker that is told to stop gets before it is killed."""

APPLICATION = "rivet-chaos"


@dataclass(frozen=True, slots=True)
class Hit:
    """What was done to a process, or to all of a group; times as in the ledger."""

    kind: str
    """``kill``, ``freeze`` or ``cut``."""
    since: float
    until: float
    group: int
    pid: int | None = None
    """None: all of the group."""
    session: int = 0


@dataclass
class Member:
    """One worker process with its children."""

    slot: int
    pool: str
    process: WorkerProcess
    frozen: bool = False
    """All of it; of children alone see ``frozen_children``."""
    frozen_children: set[int] = field(default_factory=set)
    leaves_by: float | None = None
    """It was told to stop, and is killed then."""

    @property
    def group(self) -> int:
        return self.process.process.pid

    @property
    def is_gone(self) -> bool:
        return self.process.process.poll() is not None

    @property
    def log(self) -> Path:
        return self.process.log

    def children(self) -> list[int]:
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(self.group).children(recursive=True)]
        return []

    def pids(self) -> list[int]:
        return [self.group, *self.children()]


@dataclass
class Crew:
    """One worker per slot; whoever dies is replaced at once."""

    pools: Sequence[tuple[str, int]]
    environment: Mapping[str, str]
    folder: Path
    hits: list[Hit] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    """Workers that ended though nobody did anything to them."""
    members: list[Member] = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        for slot in range(len(self.pools)):
            self.add(slot)

    def add(self, slot: int) -> None:
        pool, concurrency = self.pools[slot]
        number = self.started
        self.started += 1
        # libpq's own variable: PostgreSQL then shows whose a session is.
        environment = {**self.environment, "PGAPPNAME": f"{APPLICATION}-{number}"}
        options = [f"--pool={pool}", f"--concurrency={concurrency}", f"--hostname=w{number}@%h"]
        process = WorkerProcess(environment, self.folder / f"worker-{number}.log", *options)
        self.members.append(Member(slot, pool, process))

    def able(self) -> list[Member]:
        """Those that are up, and neither frozen nor on their way out."""
        return [
            m for m in self.members if not m.frozen and m.leaves_by is None and not m.is_gone and m.process.is_ready
        ]

    def of(self, group: int) -> Member | None:
        return next((m for m in self.members if m.group == group), None)

    def kill(self, member: Member) -> None:
        self._hit("kill", member.group, None, member.process.kill)
        self.members.remove(member)
        if member.leaves_by is None:
            self.add(member.slot)

    def kill_child(self, member: Member, pid: int) -> None:
        def kill() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        self._hit("kill", member.group, pid, kill)

    def freeze(self, member: Member, pid: int | None) -> Callable[[], None]:
        """Returns what thaws it."""
        since = time.monotonic()
        if pid is None:
            member.frozen = True
        else:
            member.frozen_children.add(pid)
        _signal(member.group, pid, signal.SIGSTOP)

        def thaw() -> None:
            _signal(member.group, pid, signal.SIGCONT)
            if pid is None:
                member.frozen = False
            else:
                member.frozen_children.discard(pid)
            self.hits.append(Hit("freeze", since, time.monotonic(), member.group, pid))

        return thaw

    def freeze_for_good(self, member: Member) -> None:
        """As a machine that has lost its network: never seen again, and its sessions stay open."""
        since = time.monotonic()
        member.frozen = True
        _signal(member.group, None, signal.SIGSTOP)
        self.hits.append(Hit("freeze", since, float("inf"), member.group))
        self.add(member.slot)

    def tell_to_stop(self, member: Member) -> None:
        member.leaves_by = time.monotonic() + GRACE_SECONDS
        member.process.process.send_signal(signal.SIGTERM)
        self.add(member.slot)

    def tend(self) -> None:
        """Bury and replace the dead; kill those that do not leave in time."""
        for member in list(self.members):
            if member.is_gone:
                self.members.remove(member)
                if member.leaves_by is None:
                    self.died.append(f"{member.pool} worker {member.group} ended by itself, see {member.log}")
                    self.add(member.slot)
            elif member.leaves_by is not None and time.monotonic() > member.leaves_by:
                self.kill(member)

    def stop(self) -> None:
        for member in self.members:
            if not member.is_gone and not member.frozen:
                member.process.process.send_signal(signal.SIGTERM)
        for member in self.members:
            if not member.frozen:
                member.process.stop()

    def kill_all(self) -> None:
        for member in self.members:
            with suppress(ProcessLookupError):
                member.process.kill()

    # Below: how it is done -------------------------------------------------------------------

    def _hit(self, kind: str, group: int, pid: int | None, act: Callable[[], None]) -> None:
        since = time.monotonic()
        act()
        self.hits.append(Hit(kind, since, time.monotonic(), group, pid))


def _signal(group: int, pid: int | None, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        if pid is None:
            os.killpg(group, number)
        else:
            os.kill(pid, number)
