"""What a step costs, in units of one committed INSERT of the same size on the same connection.

    .venv/bin/python -m tests.services -- .venv/bin/python -m benchmarks.steps

Uses a throw-away database on the server that RIVET_TEST_DATABASE names (sqlite, or postgresql behind the launcher).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import django

STEPS = 300
ROUNDS = 3


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    databases = setup_databases(verbosity=0, interactive=False)
    try:
        unit = min(_commits() for _ in range(ROUNDS))
        print(f"{connection.vendor}: one INSERT and its commit takes {unit * 1000:.2f} ms; a step takes this many:")
        for name, run in _programs().items():
            cost = min(run() for _ in range(ROUNDS))
            print(f"  {name:<28}{cost / unit:6.1f}   {cost * 1000:6.2f} ms")
    finally:
        teardown_databases(databases, verbosity=0)


# Below: how it is done ---------------------------------------------------------------------------


def _commits() -> float:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS bench (id integer, text varchar(200))")
        began = time.perf_counter()
        for number in range(STEPS):
            cursor.execute("INSERT INTO bench VALUES (%s, %s)", [number, "x" * 200])
        took = (time.perf_counter() - began) / STEPS
        cursor.execute("DROP TABLE bench")
    return took


def _programs() -> dict[str, Callable[[], float]]:
    from django_rivet import Actor, Queue, workflow
    from django_rivet.testing import drive, isolated_actors

    def timed(body: str, **options: object) -> Callable[[], float]:
        def run() -> float:
            with isolated_actors("bench"):

                class Bench(Actor):
                    class State:
                        count: int = 0

                    ticks = Queue(dict)

                    @workflow
                    def run(self, ctx):
                        if body == "receive":
                            for turn in ctx.loop("ticks"):
                                turn.queue.next("tick")
                                turn.step("add", self.add)
                        for number in range(STEPS):
                            ctx.step(f"step-{number}", getattr(self, body), **options)

                    def nothing(self) -> int:
                        return 1

                    def add(self) -> None:
                        self.state.count += 1

                actor = Bench.create(f"{body}-{time.perf_counter_ns()}")
                if body == "receive":
                    for number in range(STEPS):
                        actor.send("ticks", {"number": number})
                began = time.perf_counter()
                drive(actor)
                return (time.perf_counter() - began) / STEPS

        return run

    return {
        "atomic, asks nothing": timed("nothing"),
        "atomic, changes state": timed("add"),
        "not atomic": timed("nothing", atomic=False),
        "receive, and a state step": timed("receive"),
    }


if __name__ == "__main__":
    main()
