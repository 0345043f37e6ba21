"""Does to workers, sessions, broker and hints what the plan says."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import psutil
import redis
from celery import current_app
from django.db import connection

from django_rivet.models import Actor as ActorRow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.bell import TASK
from tests.chaos.crew import APPLICATION, Crew, Hit, Member
from tests.chaos.plan import Fire
from tests.chaos.recovery import Recoveries

Picked = TypeVar("Picked")

DELAY_SECONDS = 3
HINTED = 10


class Arsonist:
    """``strike`` does one thing and returns at once; ``tend`` does what is due later."""

    def __init__(self, crew: Crew, broker: redis.Redis, recoveries: Recoveries) -> None:
        self.crew = crew
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        """Where nobody could be hit at that moment."""
        self._broker = broker
        self._recoveries = recoveries
        self._later: list[tuple[float, Callable[[], None]]] = []

    def strike(self, fire: Fire) -> None:
        acts: dict[str, Callable[[Fire], bool]] = {
            "kill a worker": self._kill_worker,
            "kill a child": self._kill_child,
            "restart a worker": self._restart,
            "freeze a worker": self._freeze_worker,
            "freeze for long": self._freeze_worker,
            "freeze for good": self._freeze_for_good,
            "freeze a child": self._freeze_child,
            "cut a session": self._cut,
            "flush Redis": self._flush,
            "pause Redis": self._pause,
            "double hints": self._double,
            "delay hints": self._delay,
            "drop hints": self._drop,
            "bogus hints": self._bogus,
        }
        try:
            done = acts[fire.kind](fire)
        except redis.RedisError:
            done = False  # it is paused just now
        (self.done if done else self.missed)[fire.kind] += 1

    def tend(self) -> None:
        self.crew.tend()
        due = [entry for entry in self._later if entry[0] <= time.monotonic()]
        self._later = [entry for entry in self._later if entry not in due]
        for _, act in due:
            act()

    def cease(self) -> None:
        """Thaw whoever is frozen."""
        for _, act in self._later:
            act()
        self._later.clear()

    # Workers ---------------------------------------------------------------------------------

    def _kill_worker(self, fire: Fire) -> bool:
        member = self._pick_member(fire)
        if member is None:
            return False
        pids = member.pids()
        at = time.monotonic()
        self.crew.kill(member)
        self._recoveries.of_dead(pids, at)
        return True

    def _kill_child(self, fire: Fire) -> bool:
        found = self._pick_child(fire)
        if found is None:
            return False
        at = time.monotonic()
        self.crew.kill_child(*found)
        self._recoveries.of_dead([found[1]], at)
        return True

    def _restart(self, fire: Fire) -> bool:
        member = self._pick_member(fire)
        if member is not None:
            self.crew.tell_to_stop(member)
        return member is not None

    def _freeze_worker(self, fire: Fire) -> bool:
        member = self._pick_member(fire)
        if member is not None:
            self._later.append((time.monotonic() + fire.seconds, self.crew.freeze(member, None)))
        return member is not None

    def _freeze_for_good(self, fire: Fire) -> bool:
        member = self._pick_member(fire)
        if member is None:
            return False
        pids, at = member.pids(), time.monotonic()
        self.crew.freeze_for_good(member)
        self._recoveries.of_dead(pids, at)
        return True

    def _freeze_child(self, fire: Fire) -> bool:
        found = self._pick_child(fire)
        if found is not None:
            self._later.append((time.monotonic() + fire.seconds, self.crew.freeze(*found)))
        return found is not None

    def _pick_member(self, fire: Fire) -> Member | None:
        able = self.crew.able()
        if len(able) < 2:
            return None  # with nobody left nothing happens that could go wrong
        if fire.aimed:
            driving = self._driving_pids()
            able = [m for m in able if driving & set(m.pids())] or able
        return _pick(able, fire)

    def _pick_child(self, fire: Fire) -> tuple[Member, int] | None:
        forks = [m for m in self.crew.able() if m.pool == "prefork"]
        found = [(m, pid) for m in forks for pid in m.children() if pid not in m.frozen_children]
        if fire.aimed:
            driving = self._driving_pids()
            found = [each for each in found if each[1] in driving] or found
        return _pick(found, fire)

    def _driving_pids(self) -> set[int]:
        holders = WorkflowRun.objects.exclude(holder=None).values_list("holder", flat=True)
        return {int(str(holder).split(":")[1]) for holder in holders}

    # Sessions --------------------------------------------------------------------------------

    def _cut(self, fire: Fire) -> bool:
        wanted = " AND state IN ('active', 'idle in transaction')" if fire.aimed else ""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid, client_port FROM pg_stat_activity WHERE datname = current_database()"
                f" AND application_name LIKE '{APPLICATION}-%%'{wanted} ORDER BY pid"
            )
            found = _pick(cursor.fetchall(), fire)
            owner = self._owner_of(found[1]) if found is not None else None
            if found is None or owner is None:
                return False
            since = time.monotonic()
            cursor.execute("SELECT pg_terminate_backend(%s)", [found[0]])
        self.crew.hits.append(Hit("cut", since, time.monotonic(), owner[0], owner[1], session=found[0]))
        return True

    def _owner_of(self, port: int) -> tuple[int, int] | None:
        """The worker's group and the process whose end of the connection this is."""
        for each in psutil.net_connections(kind="tcp"):
            if each.laddr and each.laddr.port == port and each.pid is not None:
                for member in self.crew.members:
                    if each.pid in member.pids():
                        return member.group, each.pid
        return None

    # Broker and hints ------------------------------------------------------------------------

    def _flush(self, fire: Fire) -> bool:
        self._broker.flushall()
        return True

    def _pause(self, fire: Fire) -> bool:
        self._broker.execute_command("CLIENT", "PAUSE", int(fire.seconds * 1000))
        return True

    def _drop(self, fire: Fire) -> bool:
        return bool(self._broker.delete("celery"))

    def _double(self, fire: Fire) -> bool:
        return all(_hint(str(actor)) for actor in self._some_actors() for _ in range(2))

    def _delay(self, fire: Fire) -> bool:
        return all(_hint(str(actor), countdown=DELAY_SECONDS) for actor in self._some_actors())

    def _bogus(self, fire: Fire) -> bool:
        return all(_hint(each) for each in (str(uuid.uuid4()), "no id at all", "", None))

    def _some_actors(self) -> list[uuid.UUID]:
        return list(ActorRow.objects.order_by("?").values_list("id", flat=True)[:HINTED])


def _hint(actor: str | None, countdown: float | None = None) -> bool:
    try:
        current_app.send_task(TASK, args=[actor], ignore_result=True, retry=False, expires=60, countdown=countdown)
    except Exception:
        return False  # the broker is paused just now
    return True


def _pick(found: Sequence[Picked], fire: Fire) -> Picked | None:
    return found[int(fire.pick * len(found))] if found else None
