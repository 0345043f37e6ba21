"""Orders for the journeys in which something goes wrong, and the one way in which all of them must end."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from django_rivet.models import Message
from django_rivet.runtime.handles import Handle
from tests.journeys.actors import OrderActor, StockActor
from tests.journeys.models import Effect
from tests.journeys.outside import effects
from tests.journeys.workers import eventually

NO_RETRIES = {"STEP_DEFAULTS": {"max_retries": 0}}
"""Settings for workers: a single attempt that is charged where it must not be spoils an order, or stops a rollback."""


class Orders:
    """A stream of orders for a few actors; every third cannot be shipped."""

    def __init__(self, actors: int) -> None:
        self.handles: list[Handle] = [OrderActor.create(f"actor-{n}") for n in range(actors)]
        self.sent: list[tuple[str, bool]] = []
        self._numbers = itertools.count()

    def send(self, rounds: int = 1) -> None:
        """``rounds`` orders for each actor; what raises is not counted as sent."""
        for handle in self.handles * rounds:
            n = next(self._numbers)
            order = (str(n), n % 3 == 2)
            handle.send("orders", {"id": order[0], "fails": order[1]})
            self.sent.append(order)

    def are_done(self) -> bool:
        """Asleep alone would not do: so is one that is to be tried again in a second, in the middle of an order."""
        queued = Message.objects.filter(status="queued").exists()
        seen = [handle.snapshot() for handle in self.handles]
        return not queued and all(each.status == "sleeping" and each.waiting_for == ["orders"] for each in seen)

    def assert_right(self, ledger: Path, log: Path, seconds: float = 120) -> None:
        """They all end: confirmed once or compensated once, and no atomic effect came twice."""
        eventually(self.are_done, seconds, "all orders end", log)
        confirmed = sorted(order for handle in self.handles for order in handle.state.confirmed)
        rejected = sorted(order for handle in self.handles for order in handle.state.rejected)
        assert confirmed == sorted(order for order, fails in self.sent if not fails)
        assert rejected == sorted(order for order, fails in self.sent if fails)
        assert sorted(StockActor.get("main").state.reserved) == confirmed

        wanted = [f"reserve:{order}" for order, _ in self.sent]
        wanted += [f"confirm:{order}" for order in confirmed] + [f"release:{order}" for order in rejected]
        assert Counter(Effect.objects.values_list("name", flat=True)) == Counter(wanted)

        seen = effects(ledger)
        assert {effect for effect, keys in seen.items() if len(keys) != 1} == set(), "one key for all attempts"
        assert {e for e in seen if e.startswith("refund:")} == {f"refund:{order}" for order in rejected}
        assert {e for e in seen if e.startswith("charge:")} == {f"charge:{order}" for order, _ in self.sent}

    def some_are_under_way(self, ledger: Path) -> Callable[[], bool]:
        """A condition: work has begun on an order that was not begun before now."""
        before = len(effects(ledger))
        return lambda: len(effects(ledger)) > before
