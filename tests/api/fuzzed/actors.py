"""Actors that take values of every sort, and let in everybody, users of the site, or staff only."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field
from rest_framework.permissions import AllowAny, IsAuthenticated

from django_rivet import Actor, Event, Queue, action, workflow


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Box(BaseModel):
    size: Size
    kind: Literal["box"] = "box"
    inside: list[Box] = []
    weight: Annotated[Decimal | None, Field(gt=0, lt=100)] = None
    labels: dict[str, date] = {}


class Bag(BaseModel):
    kind: Literal["bag"]
    anything: Any = None


class Warehouse(Actor):
    """Bears the names that its app gives it also where that is not installed."""

    class State:
        calls: int = 0
        last: Box | None = None

    class Meta:
        abstract = True

    arrivals = Queue(Annotated[Box | Bag, Field(discriminator="kind")])
    anything = Queue()
    left = Event(Box | None)

    def create_state(self, input: Box | None) -> dict[str, Any]:
        return {"last": input}

    @workflow
    def run(self, ctx: Any) -> None:
        ctx.queue.next("wait", names=["anything"])

    @action
    def store(self, box: Box, *, fragile: bool = False) -> Box | None:
        self.state.calls += 1
        before, self.state.last = self.state.last, box
        return before

    @action
    def count(self, *numbers: Annotated[int, Field(ge=-1000, le=1000)]) -> int:
        return sum(numbers)

    @action(readonly=True)
    def plan(self, at: datetime, by: timedelta, price: Decimal, id: UUID | None = None) -> dict[str, Any]:
        return {"at": at, "by": by, "price": price, "id": id, "calls": self.state.calls}

    @action
    async def echo(self, value: Any = None) -> Any:
        return value


class Open(Warehouse):
    class Meta:
        name = "fuzzed.Open"
        permission_classes = [AllowAny]


class Members(Warehouse):
    class Meta:
        name = "fuzzed.Members"
        permission_classes = [IsAuthenticated]


class Closed(Warehouse):
    class Meta:
        name = "fuzzed.Closed"
