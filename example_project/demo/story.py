"""Three orders: one is confirmed, one has its card declined, one loses its worker in the middle of the charge."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from example_project.demo.api import Api
from example_project.demo.processes import Processes
from example_project.shop.models import GatewayRequest, Invoice

READY = " ready."
"""What Celery says when a worker takes its first task."""

Entry = dict[str, Any]
"""An entry of a history, as the API shows it."""

STYLES = {
    "completed": "green",
    "failed": "red",
    "rolled back": "yellow",
    "retrying": "yellow",
    "running": "cyan",
}


@dataclass
class Order:
    """One order of the demo, and what was seen of it."""

    id: str
    card: str
    told: set[str] = field(default_factory=set)
    """Lines of its history that were printed."""

    def tree(self, history: list[Entry]) -> list[Entry]:
        """Its part of the checkout's history: the iteration that received it."""
        for iteration in (turn for loop in history for turn in loop["children"]):
            received = [entry["output"] or [] for entry in iteration["children"] if entry["kind"] == "message"]
            if any(message["body"]["id"] == self.id for batch in received for message in batch):
                children: list[Entry] = iteration["children"]
                return children
        return []

    def entries(self, history: list[Entry]) -> list[Entry]:
        """The same, flat."""
        return list(_flat(self.tree(history)))


@dataclass
class Kill:
    """The worker's end, and the new one's beginning."""

    at: datetime
    ready_at: datetime


class Story:
    """Submits the orders over HTTP, and tells what becomes of them."""

    def __init__(self, api: Api, processes: Processes, console: Console) -> None:
        self._api = api
        self._processes = processes
        self._console = console
        # Somebody's own database may know this shop already.
        mark = f"-{int(time.time())}" if Invoice.objects.exists() or GatewayRequest.objects.exists() else ""
        self.good = Order(f"order-1{mark}", "valid")
        self.declined = Order(f"order-2{mark}", "declined")
        self.killed = Order(f"order-3{mark}", "slow")

    @property
    def orders(self) -> list[Order]:
        return [self.good, self.declined, self.killed]

    def run(self) -> Kill:
        """All three to their ends; `DemoError` where one doesn't get there."""
        self._title(f"{self.good.id}: a good order")
        self._submit(self.good)
        self._follow(self.good, "confirm", 30)

        self._title(f"{self.declined.id}: the bank declines the card, and what was done is undone")
        self._submit(self.declined)
        self._follow(self.declined, "reject", 30)

        self._title(f"{self.killed.id}: its worker is killed inside the charge; another one takes over")
        self._submit(self.killed)
        kill = self._kill_inside_the_charge()
        self._follow(self.killed, "confirm", 60)
        return kill

    # Below: how it is done ---------------------------------------------------------------------

    def _submit(self, order: Order) -> None:
        self._api.order(order.id, order.card)

    def _follow(self, order: Order, last: str, seconds: float) -> None:
        """Print what moves, until the step `last` is completed."""
        self._processes.wait_until(lambda: self._tell(order, last), seconds, f"{order.id} gets to {last!r}")

    def _tell(self, order: Order, last: str) -> bool:
        history = self._api.history()
        for words in _lines(order.tree(history)):
            line = "  ".join(words)
            if line not in order.told:
                order.told.add(line)
                self._print(words)
        return any(e["path"].endswith(f"/{last}") and e["status"] == "completed" for e in order.entries(history))

    def _kill_inside_the_charge(self) -> Kill:
        """The card is slow: the money has moved, and its worker waits to hear of it."""
        worker, starts = self._processes.worker, self._processes.worker.starts
        charging = GatewayRequest.objects.filter(order_id=self.killed.id)
        self._processes.wait_until(charging.exists, 30, f"{self.killed.id} gets to the gateway")
        self._tell(self.killed, "")
        worker.kill()
        at = datetime.now(UTC)
        self._console.print(Text("  kill -9 of the worker; its supervisor starts another one", "bold red"))
        self._processes.wait_until(lambda: worker.starts > starts and worker.has_said(READY), 60, "a new worker")
        ready_at = datetime.now(UTC)
        self._console.print(Text("  a new worker is ready, and waits for the lease of the dead one to end", "bold"))
        return Kill(at, ready_at)

    def _title(self, text: str) -> None:
        self._console.print()
        self._console.print(Text(text, "bold"))

    def _print(self, words: list[str]) -> None:
        name, status, *rest = words
        line = Text(f"  {datetime.now():%H:%M:%S}  {name:<12}")  # noqa: DTZ005 - the reader's own time
        line.append(f"{status:<12}", STYLES.get(status, ""))
        line.append("  ".join(rest))
        line.rstrip()
        self._console.print(line)


def _flat(entries: list[Entry]) -> Iterator[Entry]:
    for entry in entries:
        yield entry
        yield from _flat(entry["children"])


def _lines(entries: list[Entry]) -> Iterator[list[str]]:
    """What there is to tell of steps and messages; of each scope first what was done, then what was undone."""
    for entry in entries:
        if entry["kind"] in ("step", "message"):
            yield _words(entry)
        yield from _lines(entry["children"])
    for entry in reversed(entries):
        rollback = entry["rollback"]
        if rollback and rollback["status"] == "completed":
            yield [_name(entry), "rolled back"]


def _words(entry: Entry) -> list[str]:
    words = [_name(entry), entry["status"]]
    if entry["attempts"]:
        words.append(f"attempt {entry['attempts']}")
    if entry["error"]:
        words.append(f"{entry['error']['name']}: {entry['error']['message']}")
    return words


def _name(entry: Entry) -> str:
    name: str = entry["path"].rpartition("/")[2]
    return name
