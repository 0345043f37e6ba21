"""A desk: an actor whose workflow is a function, and what has become of its letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message


def desk(work: Callable[[Any, Any], Any]) -> Any:
    """An actor whose workflow is ``work(self, ctx)``."""

    class Desk(Actor):
        letters = Queue(str, int)

        @workflow
        def run(self, ctx):
            return work(self, ctx)

    return Desk.create("one")


def mail(actor: Any) -> list[tuple[str, str | None]]:
    """Status and response of each message, in the order of sending."""
    return list(Message.objects.filter(actor_id=actor.id).order_by("id").values_list("status", "response"))
