"""Actors whose steps leave marks in the outside world, and whose handlers leave others."""

from __future__ import annotations

from typing import Any

from django_rivet import Actor, CriticalError


def undoable(outside: list[Any]) -> type[Actor[Any]]:
    """A base for the actors of one test; what happens in the world is written into ``outside``."""

    class Undoable(Actor[Any]):
        class Meta:
            abstract = True

        def do(self, thing: Any) -> Any:
            outside.append(f"do {thing}")
            return thing

        def undo(self, rollback: Any, thing: Any) -> None:
            outside.append(f"undo {thing}")

        def fail(self, message: str = "no") -> None:
            raise CriticalError(message)

    return Undoable


def shop(outside: list[Any]) -> type[Actor[Any]]:
    """A base for shops: what they do, and what they take back, is written into ``outside``."""

    class Shop(Actor[Any]):
        class Meta:
            abstract = True

        def reserve(self, order: str) -> str:
            outside.append(f"reserve {order}")
            return f"reservation-{order}"

        def release(self, rollback: Any, reservation: Any) -> None:
            outside.append(f"release {reservation}")

        def charge(self, order: str) -> str:
            outside.append(f"charge {order}")
            return f"charge-{order}"

        def refund(self, rollback: Any, charge: Any) -> None:
            outside.append(f"refund {charge}")

        def confirm(self, order: str) -> None:
            if order.startswith("bad"):
                raise CriticalError(f"{order} is not deliverable")
            outside.append(f"confirm {order}")

        def take(self, scope: Any, order: str) -> None:
            scope.rollback_checkpoint("order")
            scope.step("reserve", self.reserve, order, rollback=self.release)
            scope.step("charge", self.charge, order, rollback=self.refund)
            scope.step("confirm", self.confirm, order)

    return Shop


def undone(actor: Any) -> list[str]:
    """Paths of the steps that were undone, in the order in which their handlers were to run."""
    steps = [e for e in actor.history() if e.rollback is not None and e.rollback.status == "completed"]
    return [e.path for e in sorted(steps, key=lambda e: e.seq, reverse=True)]


def handlers(outside: list[Any]) -> list[str]:
    """What the handlers of an ``undoable`` actor have undone so far, in their order."""
    return [each.removeprefix("undo ") for each in outside if str(each).startswith("undo ")]
