"""What a join costs beside the same steps one after another, and what it saves where their bodies take long.

    .venv/bin/python -m tests.services -- .venv/bin/python -m benchmarks.branches

Uses a throw-away database on the server that RIVET_TEST_DATABASE names (sqlite, or postgresql behind the launcher).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import django

JOINS = 50
ROUNDS = 3
BRANCHES = 3


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    databases = setup_databases(verbosity=0, interactive=False)
    try:
        for what, body in _bodies().items():
            alone, joined = (min(_timed(run, body) for _ in range(ROUNDS)) for run in (_in_turn, _joined))
            print(
                f"{connection.vendor}: {BRANCHES} steps that {what}: in turn {alone * 1000:6.2f} ms, "
                f"as a join {joined * 1000:6.2f} ms, {joined / alone:.2f} of it"
            )
    finally:
        teardown_databases(databases, verbosity=0)


# Below: how it is done ---------------------------------------------------------------------------


def _bodies() -> dict[str, dict[str, Any]]:
    return {
        "ask nothing": {"fn": lambda: None},
        "wait 20 ms outside": {"fn": partial(time.sleep, 0.02), "atomic": False},
    }


def _in_turn(turn: Any, fn: Callable[[], Any], options: dict[str, Any]) -> None:
    for number in range(BRANCHES):
        turn.step(f"step {number}", fn, **options)


def _joined(turn: Any, fn: Callable[[], Any], options: dict[str, Any]) -> None:
    turn.join("all", {str(n): lambda branch: branch.step("step", fn, **options) for n in range(BRANCHES)})


def _timed(run: Callable[[Any, Callable[[], Any], dict[str, Any]], None], body: dict[str, Any]) -> float:
    from django_rivet import Actor, workflow
    from django_rivet.testing import drive, isolated_actors

    options = {name: value for name, value in body.items() if name != "fn"}
    with isolated_actors("bench"):

        class Bench(Actor[Any]):
            @workflow
            def run(self, ctx: Any) -> None:
                for turn in ctx.loop("loop"):
                    run(turn, body["fn"], options)
                    if turn.iteration == JOINS - 1:
                        break

        bench = Bench.create("one")
        began = time.perf_counter()
        assert drive(bench) == "completed", bench.error
        took = (time.perf_counter() - began) / JOINS
        bench.destroy(force=True)
    return took


if __name__ == "__main__":
    main()
