"""What is done to whom, and when: drawn from a seed before anything begins."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LEASE_SECONDS = 5.0
STEP_SECONDS = 8.0
"""The time-out of all steps: a frozen worker that holds locks is cut off after that and a lease."""

WEIGHTS = {
    "kill a worker": 3,
    "kill a child": 9,
    "restart a worker": 2,
    "flush Redis": 1,
    "pause Redis": 1,
    "double hints": 2,
    "delay hints": 2,
    "drop hints": 2,
    "bogus hints": 1,
}
POSTGRESQL_WEIGHTS = {
    "freeze a worker": 1,
    "freeze a child": 3,
    "freeze for long": 1,
    "freeze for good": 1,
    "cut a session": 6,
}
"""A frozen writer on SQLite stops everybody until it is killed, and there is no session that a server could end."""

ORDER_ACTORS = 10
SENDERS = 2
TAKES = [0.02] * 4 + [0.1] * 4 + [0.3] * 3 + [0.6]
"""Seconds in a body that calls the outside: long enough to be hit."""
STOCKS = 2


@dataclass(frozen=True, slots=True)
class Fire:
    """One blow."""

    at: float
    """Seconds after the beginning."""
    kind: str
    pick: float
    """From 0 to 1: which of those that can be hit at that moment."""
    seconds: float
    """How long a freeze or a pause lasts."""
    aimed: bool
    """Whether it is for those who drive an actor at that moment, if there are any."""


def fires(seed: int, seconds: float, *, postgresql: bool) -> list[Fire]:
    """In order of time. Each kind comes at least once where ``seconds`` allow it."""
    rng = random.Random(f"{seed}/fires")
    weights = WEIGHTS | (POSTGRESQL_WEIGHTS if postgresql else {})
    count = max(4, int(seconds / (0.8 if postgresql else 1.5)))
    kinds = rng.sample(list(weights), len(weights))
    kinds += rng.choices(list(weights), list(weights.values()), k=max(0, count - len(kinds)))
    times = sorted(rng.uniform(0.0, seconds) for _ in kinds[:count])
    return [
        Fire(at, kind, rng.random(), _seconds(rng, kind), rng.random() < 0.7)
        for at, kind in zip(times, kinds, strict=False)
    ]


def orders(seed: int, sender: int) -> Iterator[tuple[float, str, dict[str, Any]]]:
    """Pauses before sending, the keys of the actors, and the messages of one sender; without end."""
    rng = random.Random(f"{seed}/orders/{sender}")
    number = 0
    while True:
        order = {
            "id": f"s{sender}-{number}",
            "sender": sender,
            "number": number,
            "stock": f"stock-{rng.randrange(STOCKS)}",
            "fails": rng.random() < 0.3,
            "charge_flakes": rng.choice([0, 0, 0, 1, 2]),
            "pack_flakes": rng.choice([0, 0, 0, 0, 1]),
            "nap": rng.choice([0, 0, 0.05, 0.3]),
            # A few take longer than a lease: their worker has to keep it.
            "takes": rng.choice(TAKES) if rng.random() < 0.98 else LEASE_SECONDS * 1.2,
        }
        yield rng.expovariate(5), f"orders-{rng.randrange(ORDER_ACTORS)}", order
        number += 1


def trips(seed: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """Pauses before creating, and the plans of the trips; without end."""
    rng = random.Random(f"{seed}/trips")
    while True:
        plan = {
            "legs": rng.randint(1, 4),
            "nap": rng.choice([0.05, 0.5, 1.5]),
            "end": rng.choice(["arrive", "fail", "cancel"]),
            "cancel_after": rng.uniform(0.0, 2.0),
        }
        yield rng.expovariate(2), plan


# Below: how it is done ---------------------------------------------------------------------------


def _seconds(rng: random.Random, kind: str) -> float:
    if kind == "freeze for long":
        return STEP_SECONDS + LEASE_SECONDS + rng.uniform(1, 3)
    if kind == "pause Redis":
        return rng.uniform(0.5, 3)
    return LEASE_SECONDS + rng.uniform(1, 3)
